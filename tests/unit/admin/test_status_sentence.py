"""The first line of the Overview while databases are unreachable: it says where their events are."""

from datetime import UTC, datetime

from services.admin.figures.locations import Locations
from services.admin.figures.parts import Part
from services.admin.figures.reading import DatabaseFigures, Reading
from services.admin.figures.status_sentence import status_of
from shared.figures import WriterDatabase

NOW = datetime.now(UTC)
UNREAD = "1,200 events are in flight: the writer reads no further on Kafka until a database answers."


def words(in_flight: int, **states: str) -> list[str]:
    databases = tuple(
        DatabaseFigures(
            name=name, landed=None, landed_line=(), writer=WriterDatabase(state=state, waiting_kafka=7)
        )
        for name, state in states.items()
    )
    down = Part("database", "database onramp", is_up=False, since=NOW, reason="refused")
    locations = Locations(at=NOW, accepted=2_000, in_flight=in_flight, waiting_database=0, waiting_kafka=0)
    reading = Reading(at=NOW, since=NOW, databases=databases, parts=(down,), locations=locations)
    return [clause.rest for clause in status_of(reading, NOW).clauses]


def test_events_of_the_only_database_are_in_flight_and_the_banner_says_why() -> None:
    by_itself = "7 events wait for it; the writer tries again by itself."
    assert words(1_200, onramp="out") == [UNREAD, f"{UNREAD} {by_itself}"]
    assert words(1_200, onramp="out", other="landing") == ["Its events wait until it does.", by_itself]
    assert words(0, onramp="out") == ["Its events wait until it does.", by_itself]
