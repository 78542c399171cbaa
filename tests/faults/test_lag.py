"""Lag metrics while Kafka or a database is unreachable."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

import pytest
from confluent_kafka import Producer

from services.writer.driver import collector
from services.writer.observe import database_stats, lag
from services.writer.postgres.database import Database
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.two_topics import Two
from tests.fixtures.writer import CONTEXT, event, eventually, make_topics, produce

_OFTEN = 0.1


def _of(kind: str, topic: str) -> str:
    return f'onramp_writer_{kind}{{partition="0",topic="{topic}"}}'


def _behind(writer: Inline, topic: str) -> tuple[float | None, bool]:
    """Return how many events are not settled, and whether the oldest of them has an age."""
    shown = writer.shown
    return shown.get(_of("lag_events", topic)), shown.get(_of("lag_seconds", topic), 0) > 0


def test_with_the_only_database_out_what_waits_in_kafka_is_lag(inline: Scene, other: Other) -> None:
    def send(first: int, n: int) -> None:
        ids = range(first, first + n)
        produce(inline.bootstrap, inline.topic, [event(f"e-{i}", inline.name) for i in ids])

    make_topics(inline.bootstrap, inline.topic)
    send(0, 3)
    database, sessions = other.sibling(inline.dsn), f'onramp_writer_connections{{database="{inline.database}"'
    writer: Inline = inline.writer(metrics_seconds=_OFTEN)
    eventually(lambda: inline.group() == {0: 3})
    eventually(lambda: _behind(writer, inline.topic) == (0, False))
    eventually(lambda: [name for name in writer.shown if name.startswith(sessions)])

    database.close()
    send(3, 5)
    eventually(lambda: _behind(writer, inline.topic) == (5, True))
    eventually(lambda: writer.states == {inline.database: "out"})
    eventually(lambda: not [name for name in writer.shown if name.startswith(sessions)])
    state = f'onramp_writer_database_state{{database="{inline.database}",state="out"}}'
    eventually(lambda: writer.shown[state] == 1)

    writer.stop()  # the next one is told by the group alone where it stands
    fresh: Inline = inline.writer(wait=False, metrics_seconds=_OFTEN)
    eventually(lambda: _behind(fresh, inline.topic) == (5, True))
    send(8, 2)
    eventually(lambda: _behind(fresh, inline.topic) == (7, True))
    database.open()
    eventually(lambda: _behind(fresh, inline.topic) == (0, False))
    assert inline.landed() == 10


@contextmanager
def _open_transaction(scene: Scene, n: int) -> Iterator[Producer]:
    """Have a producer of `n` events whose transaction is open until the test ends it."""
    settings = {"transactional.id": scene.name, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": scene.bootstrap, **settings})
    producer.init_transactions(60)
    producer.begin_transaction()
    for i in range(n):
        producer.produce(scene.topic, event(f"t-{i}", scene.name), partition=0, headers=CONTEXT)
    assert producer.flush(60) == 0
    yield producer


def test_a_transaction_that_another_producer_leaves_open_is_lag_and_has_a_name(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "TOO_LONG_SECONDS", 0.5)
    writer = two.writer(metrics_seconds=_OFTEN)
    two.send("before")
    eventually(lambda: two.landed() == {"before"})
    with _open_transaction(two.scene, 4) as producer:
        two.send("behind-1", "behind-2")
        eventually(lambda: _behind(writer, two.topic) == (6, True))
        eventually(lambda: writer.shown.get(_of("open_transaction_seconds", two.topic), 0) > 0)
        said = eventually(lambda: writer.readyz()["open_transactions"].get(f"{two.topic}/0"))
        assert f"--topic {two.topic} --partition 0 --start-offset 1" in said
        two.the_other_lands()
        assert two.landed() == {"before"}
        assert _of("open_transaction_seconds", two.beside) not in writer.shown
        producer.abort_transaction(60)
        eventually(lambda: two.landed() == {"before", "behind-1", "behind-2"})
        eventually(lambda: _behind(writer, two.topic) == (0, False))
        eventually(lambda: not writer.readyz()["open_transactions"])
        assert _of("open_transaction_seconds", two.topic) not in writer.shown


def test_committed_batch_is_counted_at_once_while_totals_cannot_be_read(
    inline: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From some moment on, reading the totals fails."""

    def has_counted(n: int) -> bool:
        shown = writer.shown
        of_it = {name: n for name, n in shown.items() if name.startswith("onramp_writer_events_total{")}
        return all(
            sum(of_it[name] for name in of_it if f'outcome="{outcome}"' in name and inline.name in name) == n
            for outcome in ("landed", "filtered")
        )

    def nobody_reads(_: Database) -> NoReturn:
        raise InfrastructureError(DATABASE_UNAVAILABLE, "it is busy")

    make_topics(inline.bootstrap, inline.topic)
    writer: Inline = inline.writer(metrics_seconds=_OFTEN)
    has_read = f'onramp_writer_waiting_events{{database="{inline.database}",where="database"}}'
    eventually(lambda: has_read in writer.shown)
    monkeypatch.setattr(database_stats, "read", nobody_reads)
    monkeypatch.setattr(collector, "undecided", lambda _: {})
    for first in (0, 7):
        ids = range(first, first + 7)
        produce(inline.bootstrap, inline.topic, [event(f"e-{i}", inline.name) for i in ids])
        produce(inline.bootstrap, inline.topic, [b"not for us"] * 7, headers=[])
        eventually(partial(has_counted, first + 7))


def test_an_idle_writer_notices_a_database_that_is_gone_by_the_next_reading(
    inline: Scene, other: Other
) -> None:
    make_topics(inline.bootstrap, inline.topic)
    database = other.sibling(inline.dsn)
    writer: Inline = inline.writer(metrics_seconds=_OFTEN, reconcile_seconds=3600)
    sessions = f'onramp_writer_connections{{database="{inline.database}",state="idle"}}'
    eventually(lambda: sessions in writer.shown)
    assert writer.states == {inline.database: "landing"}
    database.close()
    eventually(lambda: writer.states == {inline.database: "out"})
    database.open()
    eventually(lambda: writer.states == {inline.database: "landing"})
