"""Changes on a source's topic are appended unchanged to their landing table, exactly once."""

from contextlib import closing
from typing import Any
from uuid import UUID

import psycopg2
import pytest

from services.cdc.merger.merger import is_readable
from services.writer.model.routes import Routes, SourceRoute
from services.writer.settle import task as settle_task
from shared import change_table, wire
from shared.kafka_read.offsets import Partition
from tests.fixtures.changes import Stream
from tests.fixtures.writer import Bench, Landed, arrivals, database_of, event, eventually
from tests.integration.writer.waiting_bench import Hall

ORDERS = Stream()
TOPIC = Partition(ORDERS.topic, 0)
ROUTES = Routes("onramp", sources=(SourceRoute("shop", "onramp"),))
#: Of another topic than the bench's.
TOPIC_ID = str(UUID(int=9))
LANDED = f"landing.{ORDERS.landing}"


@pytest.fixture
def changes(bench: Bench) -> Bench:
    bench.claim([TOPIC], topic_id=TOPIC_ID)
    return bench


def _settle(
    bench: Bench, values: list[bytes | None], first: int = 0, routes: Routes = ROUTES, **more: Any
) -> Landed:
    return bench.settle(
        arrivals(values, first=first, partition=TOPIC), routes=routes, topic_id=TOPIC_ID, **more
    )


def _landed(bench: Bench, table: str = LANDED) -> list[tuple[Any, ...]]:
    return bench.rows(
        f"SELECT _offset, change #>> '{{op}}', change #>> '{{after,id}}' FROM {table} ORDER BY 1"  # noqa: S608
    )


def test_changes_land_as_they_are_in_the_table_that_the_writer_makes(changes: Bench) -> None:
    values = Stream().insert(id=1, note="a").commit().update(id=1, note="b").delete(id=1).truncate().values
    assert _settle(changes, [*values]) == Landed((), 4, 0)
    assert _landed(changes) == [(0, "c", "1"), (1, "u", "1"), (2, "d", None), (3, "t", None)]
    assert changes.one(f"SELECT change FROM {LANDED} LIMIT 1")["source"]["table"] == "orders"  # noqa: S608
    assert changes.rows("SELECT destination, outcome, events::int FROM onramp.totals") == [
        (LANDED, "landed", 4)
    ]
    assert changes.ledger(TOPIC) == 4


def test_a_task_that_runs_twice_lands_changes_once(changes: Bench) -> None:
    values: list[bytes | None] = [*Stream().insert(id=1).insert(id=2).values]
    for _ in range(2):
        _settle(changes, values)
    assert len(_landed(changes)) == 2


def test_a_landing_table_that_somebody_dropped_is_made_again(changes: Bench) -> None:
    first, second = Stream().insert(id=1).insert(id=2).values
    _settle(changes, [first])
    changes.execute(f"DROP TABLE {LANDED}")
    assert _settle(changes, [second], first=1) == Landed((), 1, 0)
    assert [offset for offset, *_ in _landed(changes)] == [1]


def test_a_repeat_of_the_connector_lands_too(changes: Bench) -> None:
    _settle(changes, [*Stream().insert(id=1).again(1).values])
    assert [offset for offset, *_ in _landed(changes)] == [0, 1], (
        "landing tells what Kafka has; the model drops it"
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"no JSON",
        b'{"op":"c"}',
        b'{"op":"x","source":{"schema":"app","table":"orders"}}',
        b'{"op":"c","source":{"schema":"","table":"orders"}}',
        b'{"op":"c","source":{"schema":"app","table":"%b"}}' % (b"n" * 64),
        b'{"op":"c","source":{"schema":"app","table":"orders"},"after":{"a":"\xff"}}',
        event(),
        b"[" * 5_000,
    ],
)
def test_record_that_is_not_a_change_is_parked_and_adjacent_changes_land(
    changes: Bench, value: bytes | None
) -> None:
    parked: list[Any] = []

    def keep(_: Any, events: Any) -> None:
        parked.extend(u.error.fault.code for _, u in events)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle_task, "park_unroutable", keep)
        first, second = Stream().insert(id=1).insert(id=2).values
        assert _settle(changes, [first, value, second]).failures == ()
    assert (parked, [offset for offset, *_ in _landed(changes)]) == (["not_a_change"], [0, 2])


def test_a_change_that_jsonb_cannot_hold_is_parked_by_itself(changes: Bench) -> None:
    first, bad, last = Stream().insert(id=1).insert(id=2, note="\0").insert(id=3).values
    assert _settle(changes, [first, bad, last]) == Landed((), 3, 1)
    assert [offset for offset, *_ in _landed(changes)] == [0, 2]
    assert changes.one('SELECT "offset" FROM onramp.outbox') == 1


def test_target_table_is_taken_from_the_source_block_and_not_from_the_topic(changes: Bench) -> None:
    other = Stream(schema="app-orders", table="orders_1").insert(id=7).values
    _settle(changes, [*other])
    assert _landed(changes, '"landing"."shop__app-orders__orders_1"') == [(0, "c", "7")]


def test_records_of_transactions_have_a_table_of_their_own(changes: Bench) -> None:
    end = b'{"status":"END","id":"7:9","event_count":1,"data_collections":[{"data_collection":"app.orders"}]}'
    _settle(changes, [end])
    assert changes.one("SELECT change ->> 'status' FROM landing.shop__transaction") == "END"


def test_a_topic_of_no_source_holds_envelopes(changes: Bench) -> None:
    _settle(changes, [event("order-1")], routes=Routes("onramp"))
    assert changes.one("SELECT _topic FROM events.order_placed") == TOPIC.topic


def test_transaction_notifies_only_when_it_lands_a_change(changes: Bench) -> None:
    with closing(psycopg2.connect(changes.dsn)) as listening:
        listening.autocommit = True
        with listening.cursor() as cursor:
            cursor.execute(f"LISTEN {change_table.CHANNEL}")
        changes.settle(arrivals([event()]))
        _settle(changes, [*Stream().insert(id=1).values])
        eventually(lambda: is_readable(listening.fileno(), 0.1) and (listening.poll() or listening.notifies))
        assert len(listening.notifies) == 1


def test_changes_that_wait_for_a_lock_land_later_as_changes(changes: Bench, hall: Hall) -> None:
    values: list[bytes | None] = [*Stream().insert(id=1).insert(id=2).values]
    _settle(changes, values[:1])
    with closing(psycopg2.connect(changes.dsn)) as locking, locking.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {LANDED}")
        _settle(changes, values[1:], first=1, settings={"lock_timeout_ms": 50})
        assert changes.one("SELECT count(*) FROM onramp.waiting") == 1
        locking.rollback()
    hall.release()
    assert [offset for offset, *_ in _landed(changes)] == [0, 1]


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [
        ("cdc.shop-app-orders", True),
        ("cdc.shop-transaction", True),
        ("cdc.shop-message", False),
        ("cdc.shop", False),
        ("cdc.shopping-app-orders", False),
        ("events.shop-app-orders", False),
    ],
)
def test_which_topics_are_a_sources(topic: str, is_one: bool) -> None:
    assert wire.is_change_topic(topic, "shop") is is_one


def test_names_of_landing_tables_are_of_one_table_each() -> None:
    tables = [
        ("app", "orders"),
        ("app__x", "y"),
        ("app", "x__y"),
        ("app", "_y"),
        ("app_", "y"),
        ("a", "n" * 63),
    ]
    tables += [("a", "n" * 62 + "o"), ("app", "x~y")]
    names = [change_table.name_of("shop", *table) for table in tables]
    assert names[0] == "shop__app__orders"
    assert len(set(names)) == len(names)
    assert all(len(name.encode()) <= 63 for name in names)


def test_no_message_may_write_to_the_landing_schema(bench: Bench) -> None:
    with pytest.raises(ValueError, match="no message may write to landing"):
        database_of(bench.dsn, databases={"onramp": {"dsn": bench.dsn, "schemas": ["landing"]}})
