"""Of several agents one watches over a source: two would ask Kafka Connect for different things."""

from tests.fixtures.writer import eventually
from tests.integration.cdc.desk import Desk
from tests.integration.cdc.test_frozen import look_at


def test_one_watches_until_it_ends_and_others_watch_other_sources(desk: Desk) -> None:
    with desk.kept() as one, desk.kept() as other, desk.kept("store") as third:
        assert [each.watch() for each in (one, one, other, third, other)] == [True, True, False, True, False]
        one.close()
        eventually(other.watch)
        assert not one.watch()


def test_who_stands_by_touches_nothing(desk: Desk) -> None:
    with desk.kept() as one:
        assert one.watch()
        one.read()
        row = "SELECT xmin::text, state, looked_at FROM onramp_agent.sources"
        before = desk.bench.rows(row)
        look = look_at(desk.bench.dsn, desk.bench.dsn)
        shown = look.look()
        assert (shown.state, shown.reason) == ("standby", "another agent watches over it, until that ends")
        assert desk.bench.rows(row) == before
        one.close()
        eventually(lambda: look.look().reason.startswith("Kafka Connect"))
        look.close()
