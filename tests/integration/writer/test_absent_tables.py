"""Packets that name many missing tables do not cost a query each."""

from services.writer.settle.event_type_pauses import PausePolicy
from tests.fixtures.writer import Bench, arrivals
from tests.integration.writer_tables.conftest import destination, packet


def test_many_absent_tables_are_asked_for_at_once(bench: Bench, statements: list[str]) -> None:
    bench.execute("CREATE TABLE public.there (id int PRIMARY KEY)")
    names = [f"absent_{n}" for n in range(300)]
    values = [packet({"id": 1}, destination(name)) for name in (*names, "there", "Müll")]
    done = bench.settle(arrivals(values), pause_policy=PausePolicy(share=0.5))
    assert done.seconds > 0  # by which the planner bounds the partition's share
    assert bench.totals() == {"landed": 1, "parked": 301}
    assert bench.rows("SELECT DISTINCT error->>'code' FROM onramp.outbox") == [("unknown_table",)]
    assert len(statements) < 60, len(statements)
