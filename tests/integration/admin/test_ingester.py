"""Dead-letter ingester: every parked event is stored once, byte for byte, in its group, despite kills."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.admin.store import ingester_sql, read_sql
from services.admin.store.control_sql import transaction
from services.admin.store.ingester_sql import IngesterSession
from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.fingerprint import Cause
from services.ops.parked.parked_events import stored_event
from shared import wire
from stack import services
from tests.fixtures.fix_postgres import HasDsn, Templates
from tests.fixtures.running_part import started
from tests.fixtures.writer import envelope, event, eventually, rows
from tests.integration.admin.admin_service import Admin
from tests.integration.admin.conftest import Stage, database_beside
from tests.integration.admin.parked_samples import keeping, parked

BAD = b'{"secret":"hunter2 \\u0000","total":"9,99"}'
TEXTS = """
    SELECT event_id, destination, reason->>'detail', event_name, b.value
    FROM onramp_admin.events e LEFT JOIN onramp_admin.bytes b ON b.event = e.id WHERE {where} ORDER BY e.id
"""
OTHER = b'{"secret":"\\u0000"}'


def bad(name: str, count: int, payload: bytes = BAD) -> list[bytes]:
    return [envelope(f"e-{n}", name, payload) for n in range(count)]


def _record(reason: dict[str, Any], value: bytes | None = b"{}", offset: int = 0) -> LogRecord:
    told = {"topic": "t", "partition": 0, "offset": offset, "code": "x", "destination": "d"} | reason
    return LogRecord(
        source=Source(wire.USER_ERRORS, 0),
        offset=offset,
        timestamp=2**62,  # its client's word: no calendar has it
        key=b"k",
        value=value,
        header_count=1,
        headers={"onramp-error": orjson.dumps(told)},
    )


def test_parked_event_is_stored_once_byte_for_byte_and_masked(stage: Stage, admin: Admin) -> None:
    values = bad(stage.name, 3)
    first = stage.settle(event("good", stage.name), *values)
    [kept_events] = admin.kept(stage.name, 3)
    group = admin.get(f"/v1/groups/{kept_events['id']}").json()
    assert (group["state"], group["cause"]["sqlstate"], group["cause"]["json_type"]) == (
        "open",
        "22P05",
        "object",
    )
    assert group["sentence"].startswith("The database refused the event's values: event ")
    assert group["samples"][0]["payload"] == {"secret": "aaaaaa9 \0", "total": "9,99"}
    assert "hunter2" not in admin.get(f"/v1/groups/{group['id']}").text
    newest, *_ = events = admin.events(group=group["id"])
    assert [e["offset"] for e in events] == [first + 3, first + 2, first + 1]
    shown = admin.get(f"/v1/events/{newest['id']}")
    assert "hunter2" not in shown.text
    assert shown.json()["reason"]["topic_id"] == stage.topic_id
    answer = admin.reveal(newest["id"])
    assert answer.content == values[-1]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "application/octet-stream"


def test_foreign_records_are_passed_over_and_hold_up_nothing(stage: Stage, admin: Admin) -> None:
    reason = {"topic": "t", "partition": 0, "offset": 0, "code": "c", "destination": "d"}
    nul = f"nul\0{stage.name}"
    foreign: list[dict[str, Any]] = [
        reason | {"offset": 2**63},
        reason | {"partition": -1},
        reason | {"destination": "d" * 3000},
        reason | {"topic": nul, "detail": "\0", "topic_id": 7, "event_name": nul},
        reason | {"offset": 1, "event_name": secrets.token_hex(10_000)},
    ]
    for document in foreign:
        stage.park(b"foreign", b"\0", [("onramp-error", orjson.dumps(document))])
    deep = orjson.dumps(reason)[:-1] + b',"deep":' + b"[" * 500 + b"]" * 500 + b"}"
    stage.park(b"foreign", b"\0", [("onramp-error", deep)])
    nameless = b'{"event_name":"n%s"}' % secrets.token_hex(10_000).encode()
    stage.park(b"foreign", nameless, [("onramp-error", orjson.dumps(reason | {"offset": 2}))])
    stage.park(b"foreign", b"no header", [])
    stage.settle(*bad(stage.name, 1))
    admin.kept(stage.name, 1)
    assert [e["topic"] for e in admin.events(event_name=f"nul\\0{stage.name}")] == [f"nul\\0{stage.name}"]


def test_a_resolved_group_opens_again_when_it_gets_an_event(stage: Stage, admin: Admin) -> None:
    stage.settle(*bad(stage.name, 1))
    [group] = admin.kept(stage.name, 1)
    path = f"/v1/groups/{group['id']}"
    answer = admin.ask(
        "PATCH",
        path,
        json={"actor": "ann", "state": "resolved", "assignee": "bob"},
        headers={"if-match": "*"},
    )
    assert (answer.json()["state"], answer.json()["assignee"]) == ("resolved", "bob")
    stage.settle(*bad(stage.name, 1))
    [again] = admin.kept(stage.name, 2)
    assert (again["state"], again["assignee"]) == ("open", "bob")
    ignored = admin.ask("PATCH", path, json={"actor": "ann", "state": "ignored"}, headers={"if-match": "*"})
    stage.settle(*bad(stage.name, 1))
    [still] = admin.kept(stage.name, 3)
    assert (ignored.json()["state"], still["state"], still["assignee"]) == ("ignored", "ignored", "bob")
    acts = admin.rows("SELECT subject, actor, act FROM onramp_admin.acts ORDER BY id")
    assert [act[1:] for act in acts if act[0] == f"group {group['id']}"] == [
        ("ann", "set state resolved, assignee bob"),
        ("ann", "set state ignored"),
    ]


def test_texts_of_any_kind_are_kept_as_they_are(templates: Templates) -> None:
    odd = ["tab\t", "line\nline\r", "\\N", "\\.", "back\\slash", "\"'", "\x01\u2028é😀", ""]
    values = [b"", b"\0\xff\n\t\\", None]
    with database_beside(templates.server, templates.control) as dsn:
        session = IngesterSession.open(dsn)
        assert session is not None
        records = [
            _record({"event_name": t, "id": t, "detail": t, "destination": t}, offset=n)
            for n, t in enumerate(odd)
        ]
        records += [_record({}, value, 100 + n) for n, value in enumerate(values)]
        found = [event for record in records if (event := stored_event(record))]
        assert session.keep([*found, *found], {Source(wire.USER_ERRORS, 0): 1}) == len(odd) + len(values)
        assert session.keep(found, {Source(wire.USER_ERRORS, 0): 1}) == 0
        session.close()
        texts = rows(dsn, TEXTS.format(where='"offset" < 100'))
        assert [row[:3] for row in texts] == [(t, t, t) for t in odd]
        assert [row[3] or None for row in texts] == [t or None for t in odd]
        stored = rows(dsn, TEXTS.format(where='"offset" >= 100'))
        assert [row[4] if row[4] is None else bytes(row[4]) for row in stored] == values


@pytest.mark.parametrize(
    "place", ["admin.before_commit", pytest.param("admin.after_commit", marks=pytest.mark.full)]
)
def test_a_keeper_that_is_killed_in_mid_slice_keeps_each_event_once(
    stage: Stage, postgres: HasDsn, tmp_path: Path, place: str
) -> None:
    stage.settle(*bad(stage.name, 5), *bad(stage.name, 5, OTHER))
    with database_beside(postgres.dsn, "template0") as dsn:
        env = {"ONRAMP_FAILPOINTS": f"{place}=kill"}
        doomed = services.admin(bootstrap=stage.bootstrap, dsn=dsn, log=tmp_path / "doomed.log", env=env)
        doomed.start()
        eventually(lambda: not doomed.child.running, 120)
        with started(
            services.admin(bootstrap=stage.bootstrap, dsn=dsn, log=tmp_path / "next.log")
        ) as service:
            found = Admin(service, dsn)
            assert [g["events"] for g in found.kept(stage.name, 10)] == [10]
            assert _miscounted_groups(dsn) == [(0,)]
            assert len(found.events(event_name=stage.name)) == 10


def _miscounted_groups(dsn: str) -> list[tuple[Any, ...]]:
    """How many groups do not have the events that they count."""
    return rows(
        dsn,
        """SELECT count(*) FROM onramp_admin.groups g
           WHERE events <> (SELECT count(*) FROM onramp_admin.events e WHERE e.group_id = g.id)""",
    )


def test_standby_ingester_takes_over_when_the_active_service_is_killed(
    stage: Stage, postgres: HasDsn, tmp_path: Path
) -> None:
    with database_beside(postgres.dsn, "template0") as dsn:
        start: Callable[[str], Any] = lambda name: services.admin(  # noqa: E731
            bootstrap=stage.bootstrap, dsn=dsn, log=tmp_path / name
        )
        first, second = start("first.log"), start("second.log")
        with started(second), started(first):
            states = [Admin(each, dsn).get("/readyz").json()["ingester"] for each in (first, second)]
            assert states == ["standby", "active"]
            second.kill()
            eventually(lambda: Admin(first, dsn).get("/readyz").json()["ingester"] == "active", 120)
            stage.settle(*bad(stage.name, 1))
            Admin(first, dsn).kept(stage.name, 1)


def test_beyond_the_most_groups_causes_are_counted_together(
    templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingester_sql, "MAX_GROUPS", 2)
    with database_beside(templates.server, templates.control) as dsn:
        session = IngesterSession.open(dsn)
        assert session is not None
        assert IngesterSession.open(dsn) is None
        for n in range(5):
            events = [
                stored_event(_record({"event_name": f"name_{n}"}, offset=n)),
                stored_event(_record({}, None, 100 + n)),
            ]
            assert session.keep([e for e in events if e], {Source(wire.USER_ERRORS, 0): n + 1}) == 2
        session.close()
        again = IngesterSession.open(dsn)
        assert again is not None
        assert again.next_offsets() == {Source(wire.USER_ERRORS, 0): 5}
        again.close()
        counts = rows(dsn, "SELECT code, event_name, events FROM onramp_admin.groups ORDER BY id")
        assert counts == [("x", "name_0", 1), ("x", None, 5), ("others", None, 4)]
        assert _miscounted_groups(dsn) == [(0,)]


def test_a_name_whose_fields_are_ids_uses_up_its_own_groups_alone(
    templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingester_sql, "MAX_GROUPS", 6)
    monkeypatch.setattr(ingester_sql, "MAX_OF_A_NAME", 2)
    with keeping(templates) as (dsn, session):
        for n in range(4):
            session.keep([parked(n, event_name="flood", pointer=f"/payload/id_{n}")], {})
        session.keep([parked(n, event_name="flood", pointer=f"/payload/id_{n}") for n in range(4, 20)], {})
        session.close()
        again = IngesterSession.open(dsn)
        assert again is not None
        again.keep([parked(n, event_name="flood", pointer=f"/payload/id_{n}") for n in range(20, 30)], {})
        again.keep([parked(30, event_name="sale", pointer="/payload/total")], {})
        again.close()
        groups = rows(dsn, "SELECT code, event_name, place, events FROM onramp_admin.groups ORDER BY id")
        assert groups == [
            ("x", "flood", "/payload/id_0", 1),
            ("x", "flood", "/payload/id_1", 1),
            ("others", "flood", None, 28),
            ("x", "sale", "/payload/total", 1),
        ]
        with transaction(dsn) as conn:
            counts = read_sql.counts(conn, 10, ["flood"])
        assert [(c.code, c.event_name, c.events) for c in counts] == [("x", "flood", 30)]


def test_fingerprints_are_of_the_cause_alone_and_the_same_on_any_machine() -> None:
    cause = Cause("persist", "data_rejected", "22P02", "a.b.c", "total", None, "order", "string")
    assert cause.fingerprint.hex() == "44a3ef141c3b4ad4cf1d2a835f0eac8a"
    assert len({cause._replace(**{name: "other"}).fingerprint for name in cause._fields}) == len(cause)
