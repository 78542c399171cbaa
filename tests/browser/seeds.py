"""Parked events of some causes, jobs and entries of the audit log, as the pages show them."""

import time
from typing import Any, Final

import orjson

from services.admin.store.control_sql import transaction
from services.admin.store.ingester_sql import IngesterSession
from services.admin.store.read_sql import record_act
from services.ops.parked.parked_events import StoredEvent
from tests.fixtures.writer import execute, rows
from tests.integration.admin.parked_samples import parked

ORDERS: Final = "onramp.public.orders"
#: Strings that a page must show as text.
HOSTILE: Final = (
    '"><img src=x onerror=alert(1)>',
    "</pre><script>alert(1)</script>",
    "\u202eevil\u202c",
    "a\u0000b",
    "\u001b[31mred\u001b[0m",
    "{{ 7 * 7 }}",
    "javascript:alert(1)",
)
_AMOUNTS: Final = ("12,50", "9,99", "1.299,00", "12,75", "n/a")
_LOOK: Final = """
    INSERT INTO onramp_admin.group_rehearsals (group_id, began_at, registry, next_at, answered_at, events,
                                               would_land)
    VALUES (%d, now(), '', now(), now(), 10, 0)
"""
_JOB: Final = """
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, state, counted, changed, failed, fix,
                                   samples, finished_at)
    VALUES ('rehearse', '{"group": %d}', 1000000, 'ada', 'rehearsal of group %d', 'done', %d, %d, %d, '%s',
            '%s', now() - interval '2 minutes')
    RETURNING id
"""


def keep(dsn: str, events: list[StoredEvent]) -> None:
    """Store events as the ingester does."""
    session = IngesterSession.open(dsn)
    assert session is not None
    session.keep(events, {})
    session.close()


def order(offset: int, amount: Any, **reason: Any) -> StoredEvent:
    """Return an order whose amount is not a number."""
    payload = {
        "order_id": f"o-{offset:06}",
        "amount": amount,
        "currency": "EUR",
        "customer_email": "a@example.com",
        "placed_on": "2026-01-02",
    }
    return _event(offset, "order_placed", payload, **{
        "code": "data_rejected", "step": "persist", "sqlstate": "22P02", "column": "amount",
        "column_type": "numeric(12,2)", "destination": ORDERS, **reason,
    })  # fmt: skip


def plant(dsn: str) -> int:
    """Store groups of several causes; return the group of the orders with wrong amounts."""
    now = int(time.time() * 1000)
    hour = 3_600_000
    events = [
        order(n, _AMOUNTS[n % 4] if n % 20 else "n/a", timestamp=now - (n % 5) * hour) for n in range(60)
    ]
    events += [
        order(
            100 + n, "1", column="placed_on", column_type="date", sqlstate="22007", timestamp=now - 9 * hour
        )
        for n in range(7)
    ]
    events += [
        order(200 + n, "1.0", column="coupon", column_type=None, sqlstate="42703", timestamp=now - 3 * hour)
        for n in range(12)
    ]
    nul = {"code": "data_rejected", "step": "persist", "sqlstate": "22P05", "column": "payload"}
    nul |= {"typed": False, "destination": "onramp.events.signup", "timestamp": now - 20 * hour}
    events += [_event(300 + n, "signup", {"name": "x\u0000y"}, **nul) for n in range(3)]
    keep(dsn, events)
    group = group_of(dsn, "amount")
    execute(dsn, _LOOK % group)
    with transaction(dsn) as conn:
        record_act(conn, "ada", "set state acknowledged", f"group {group}", "the sender knows")
        record_act(conn, "otto", "refused", "POST /ui/keys", None)
    return group


def group_of(dsn: str, column: str) -> int:
    [(number,)] = rows(dsn, f"""SELECT id FROM onramp_admin.groups WHERE "column" = '{column}'""")  # noqa: S608
    return int(number)


def rehearsed(dsn: str, group: int, *, landed: int, failed: int) -> int:
    """Store a rehearsal that is done; return its number."""
    fix = orjson.dumps([{"cast": "/amount", "to": "number", "decimal": ","}]).decode()
    samples = [
        {
            "event": n,
            "outcome": outcome,
            "edited": {"payload": {"amount": shape}},
            "row": {"_id": f"a-{'9' * 6}", "amount": shape, "currency": "AAA"}
            if outcome == "landed"
            else None,
        }
        for n, outcome, shape in [(1, "failed", "a/a"), (2, "landed", "9.99"), (3, "landed", "99.99")]
    ]
    shown = orjson.dumps(samples).decode()
    counted = landed + failed
    [(job,)] = rows(dsn, _JOB % (group, group, counted, counted, failed, fix, shown))
    why = "the fix does not apply: /amount is not a number as text with a decimal comma"
    execute(
        dsn,
        "INSERT INTO onramp_admin.results (job, outcome, reason, events) "  # noqa: S608
        f"VALUES ({job}, 'landed', '', {landed}), ({job}, 'failed', '{why}', {failed})",
    )
    return int(job)


def _event(offset: int, name: str, payload: dict[str, Any], **reason: Any) -> StoredEvent:
    envelope = {
        "metadata": {"id": f"id-{offset}", "timestamp": "2026-01-02T03:04:05Z", "version": "1"},
        "event_name": name,
        "payload": payload,
    }
    given = {"typed": True, "event_name": name, "event_id": f"id-{offset}", **reason}
    return parked(offset, orjson.dumps(envelope), **{k: v for k, v in given.items() if v is not None})
