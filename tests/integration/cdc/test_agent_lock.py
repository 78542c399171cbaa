"""Agent lock: a single agent watches a source, so Kafka Connect gets no conflicting requests."""

from tests.fixtures.writer import eventually
from tests.integration.cdc.merge_bench import Desk
from tests.integration.cdc.test_frozen import make_reconciler


def test_agent_watches_a_source_until_it_ends_while_other_sources_are_free(desk: Desk) -> None:
    with desk.store() as one, desk.store() as other, desk.store("store") as third:
        assert [each.watch() for each in (one, one, other, third, other)] == [True, True, False, True, False]
        one.close()
        eventually(other.watch)
        assert not one.watch()


def test_standby_agent_reports_standby_and_writes_no_state(desk: Desk) -> None:
    with desk.store() as one:
        assert one.watch()
        one.read()
        row = "SELECT xmin::text, state, polled_at FROM onramp_agent.sources"
        before = desk.bench.rows(row)
        reconciler = make_reconciler(desk.bench.dsn, desk.bench.dsn)
        shown = reconciler.reconcile()
        assert (shown.state, shown.reason) == ("standby", "another agent watches it, until that one ends")
        assert desk.bench.rows(row) == before
        one.close()
        eventually(lambda: reconciler.reconcile().reason.startswith("Kafka Connect"))
        reconciler.close()
