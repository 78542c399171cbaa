"""Quarantine: the failing event is isolated, events before it settle, exception text is not exposed."""

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka.errors import KafkaError

from services.writer.model.next_offsets import Position
from services.writer.model.routes import Routes
from services.writer.partitions.plan_log import PlanLog
from services.writer.partitions.quarantine import (
    Fault,
    Strikes,
    describe,
    in_halves,
    up_to_fault,
)
from shared.kafka_read.offsets import Partition, Range


def _range(number: int = 0, start: int = 0, end: int = 10) -> Range:
    return Range("id", Partition("events.x", number), start, end)


class Batches:
    """Batches that fail where `poison` is among their offsets."""

    def __init__(self, *poison: tuple[int, int], error: type[Exception] = ValueError) -> None:
        self.poison, self.error = set(poison), error
        self.done: set[tuple[int, int]] = set()
        self.tried = 0

    async def write(self, ranges: Sequence[Range]) -> None:
        self.tried += 1
        offsets = {(r.partition.number, o) for r in ranges for o in range(r.start, r.end)}
        if offsets & self.poison:
            raise self.error
        self.done |= offsets


@pytest.mark.parametrize("poison", [0, 3, 9])
def test_all_but_the_one_that_fails_alone_is_done_up_to_its_fault(poison: int) -> None:
    batches = Batches((3, poison))
    faults = asyncio.run(in_halves([_range(n) for n in range(7)], batches.write))
    assert [f.range for f in faults] == [_range(3)]
    found = asyncio.run(up_to_fault(faults[0], batches.write, known=False))
    assert found is not None
    assert found.range == _range(3, poison)
    assert {o for n, o in batches.done if n == 3} == set(range(poison))
    assert len(batches.done) == 60 + poison


def test_known_fault_costs_a_single_try_and_its_range_is_done_once_it_succeeds() -> None:
    batches = Batches((0, 0))
    fault = Fault(_range(), ValueError())
    assert asyncio.run(up_to_fault(fault, batches.write, known=True)) is not None
    assert batches.tried == 1
    batches.poison.clear()
    assert asyncio.run(up_to_fault(fault, batches.write, known=True)) is None
    assert len(batches.done) == 10


def test_expected_error_is_raised_without_halving() -> None:
    batches = Batches((0, 0), error=KafkaError)
    with pytest.raises(KafkaError):
        asyncio.run(in_halves([_range(0), _range(1)], batches.write))
    assert batches.tried == 1


def test_a_strike_is_known_at_its_offset_alone() -> None:
    strikes = Strikes()
    strikes.count([Fault(_range(), ValueError())])
    assert strikes.knows(_range())
    assert not strikes.knows(_range(start=1))
    assert not strikes.knows(_range(number=1))


def test_an_exception_is_named_without_its_words() -> None:
    with pytest.raises(ValueError, match="secret") as caught:
        int("a secret")
    said = describe(caught.value)
    assert said.startswith("ValueError (test_an_exception_is_named")
    assert "secret" not in said
    spark = type("PythonException", (Exception,), {"__module__": "pyspark.errors.exceptions.captured"})
    text = 'Traceback:\n  File "task.py", line 1, in take\nValueError: a secret\n'
    assert describe(spark(text)) == "ValueError"
    assert describe(spark("no name in it")) == "PythonException"


def test_quarantined_range_retains_its_routes_whatever_is_planned_next() -> None:
    plan_log, then, now = PlanLog(), Routes("then"), Routes("now")
    part, whole = _range(start=4), _range()
    for entry in (*plan_log.plan_entries(1, [whole], then), *plan_log.set_aside_entries(1, whole, then)):
        plan_log.apply(*entry)
    for entry in plan_log.plan_entries(1, [_range(1)], now):
        plan_log.apply(*entry)
    assert plan_log.planned_ranges(whole.partition, "id") == [(whole, then)]
    assert plan_log.set_aside_entries(1, part, then) == []
    assert plan_log.missing_routes(whole.partition, Position("id", 3)) == set()
    plan_log.routes.clear()
    assert plan_log.planned_ranges(whole.partition, "id") == []
    assert plan_log.missing_routes(whole.partition, Position("id", 3)) == {then.digest}
    assert plan_log.missing_routes(whole.partition, Position("id", 10)) == set()
