"""A step of a release or a relay is bounded by bytes, so that memory follows the step and not its events."""

from collections.abc import Callable
from typing import Any

import pytest

from services.writer.park import outbox, parked_topic
from services.writer.park.parked_topic import ParkedRecord
from services.writer.postgres.pool import transaction
from services.writer.settle import waiting_table
from shared.kafka_security import Brokers
from tests.fixtures.writer import PARTITION, TOPIC_ID, Bench, envelope, event
from tests.integration.writer.waiting_bench import Hall

MB = 1 << 20


def _event(event_id: str, size: int) -> bytes:
    return envelope(event_id, "order_placed", b'{"text":"%b"}' % (b"x" * size))


def _watch_steps(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sizes of the events of every step of a release, in their order."""
    steps: list[list[int]] = []
    take: Callable[..., list[waiting_table.WaitingEvents]] = waiting_table.take

    def watched(*arguments: Any) -> list[waiting_table.WaitingEvents]:
        taken = take(*arguments)
        steps.append([len(v) for t in taken for v in t.records.column("value").to_pylist()])
        return taken

    monkeypatch.setattr(waiting_table, "take", watched)
    return steps


def test_a_release_takes_events_up_to_a_number_of_bytes(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last event of a step are within the bound, and one always comes."""
    monkeypatch.setattr(waiting_table, "MAX_BYTES", MB)
    steps = _watch_steps(monkeypatch)
    hall.settle(event("first"))
    sizes = [3 * MB, *[200_000] * 12, 3 * MB, *[10] * 50, 1_500_000, 10]
    with hall.locked():
        hall.settle(*(_event(f"e-{n}", size) for n, size in enumerate(sizes)))
    assert hall.release() == []
    assert hall.landed() == ["first", *(f"e-{n}" for n in range(len(sizes)))]
    assert [len(step) for step in steps if step] == [1, 6, 6, 1, 51, 1]
    assert max(sum(step[:-1]) for step in steps if step) < MB


def test_large_event_that_fails_is_parked_and_the_events_behind_it_land(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It alone is more than a step takes, and is parked only because others land."""
    monkeypatch.setattr(waiting_table, "MAX_BYTES", MB)
    hall.settle(event("first"))
    hall.bench.execute(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0002'; END$$;"
        "CREATE TRIGGER no BEFORE INSERT ON events.order_placed FOR EACH ROW "
        "WHEN (NEW._id = 'bad') EXECUTE FUNCTION no()"
    )
    with hall.locked():
        hall.settle(_event("bad", 2 * MB), event("good-1"), event("good-2"))
    for _ in range(4):
        hall.release()
    assert (hall.landed(), hall.parked()) == (["first", "good-1", "good-2"], [1])


def test_a_relay_takes_records_up_to_a_number_of_bytes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order; a tombstone has no bytes."""
    published: list[list[ParkedRecord]] = []
    monkeypatch.setattr(parked_topic, "publish", lambda _, records: published.append(list(records)))
    monkeypatch.setattr(outbox, "_PAGE_BYTES", MB)
    sizes = [2 * MB, 400_000, 400_000, 400_000, None, 10, 10]
    values = [None if size is None else b"x" * size for size in sizes]
    with transaction(bench.database, "driver") as conn:
        for offset, value in enumerate(values):
            outbox.add(
                conn,
                TOPIC_ID,
                ParkedRecord(PARTITION, offset, destination="onramp.events.t", value=value, error=b"{}"),
            )
    assert outbox.relay(bench.database, Brokers(bench.bootstrap)) == len(sizes)
    assert [[r.offset for r in step] for step in published if step] == [[0], [1, 2, 3], [4, 5, 6]]
    assert [r.value for step in published for r in step] == values
