"""Of several agents one watches over a source: two would ask Kafka Connect for different things."""

from contextlib import closing

from services.elt.agent.kept_sql import KeptDatabase
from tests.fixtures.writer import eventually
from tests.integration.elt.desk import Desk
from tests.integration.elt.test_frozen import look_at


def kept(desk: Desk, source: str = "shop") -> KeptDatabase:
    return KeptDatabase(source, "ONRAMP_SOURCE_SHOP", desk.bench.dsn)


def test_one_watches_until_it_ends_and_others_watch_other_sources(desk: Desk) -> None:
    with closing(kept(desk)) as one, closing(kept(desk)) as other, closing(kept(desk, "store")) as third:
        assert [each.watch() for each in (one, one, other, third, other)] == [True, True, False, True, False]
        one.close()
        eventually(other.watch)
        assert not one.watch()


def test_who_stands_by_touches_nothing(desk: Desk) -> None:
    with closing(kept(desk)) as one:
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
