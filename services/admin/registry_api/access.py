"""Routes for questions about the registry: where events land, whether they can, who may send them."""

from typing import Annotated, Any, Final

from fastapi import FastAPI, Query

from services.admin.api.rights import Asking
from services.admin.registry_api.changes import require_there
from services.admin.registry_api.checked_tables import CheckedTables
from services.admin.registry_api.schemas import AccessQuery, CheckQuery
from services.ops.operate.destinations_sql import Fact
from services.ops.registry.access import answers
from services.ops.registry.checks import Place, facts_of, tables_of, unanswered
from services.ops.registry.registry_reader import RegistryReader
from shared.errors import BAD_QUERY, InfrastructureError, UserError
from shared.registry import EventType

#: Maximum tables of one check; each queries its database, in sequence.
_MAX_TABLES: Final = 100


def add_access(app: FastAPI, desk: RegistryReader) -> None:
    """Add the routes; pages list the checks of all tables, which `checked_tables` of the state has."""
    app.state.checked_tables = CheckedTables(desk)

    @app.get("/v1/destinations")
    def list_destinations(asking: Asking) -> dict[str, Any]:
        """The tables that event types name, without the landing tables, which the writer creates."""
        found = tables_of(desk.places, desk.read().snapshot)
        return {
            "destinations": [
                place._asdict() | {"create": destination.create}
                for place, _, destination in found
                if asking.sees(place.event_type)
            ]
        }

    @app.get("/v1/destinations/check")
    def check_destinations(query: Annotated[CheckQuery, Query()], asking: Asking) -> dict[str, Any]:
        """Each fact that must hold for events to land there, with the SQL that fixes it."""
        snapshot, only = desk.read().snapshot, query.event_type
        if only is not None:
            require_there(asking.sees(only) and only in snapshot.event_types, "event type")
        tables = [
            (place, event_type)
            for place, event_type, _ in tables_of(desk.places, snapshot)
            if asking.sees(place.event_type) and only in {None, place.event_type}
        ]
        if len(tables) > _MAX_TABLES:
            text = f"they are {len(tables):,} tables, and at most {_MAX_TABLES} are asked at once"
            raise UserError(BAD_QUERY, f"{text}: name an event_type")
        facts = [(place, fact) for place, kind in tables for fact in _facts(desk, place, kind)]
        return {
            "holds": all(fact.holds for _, fact in facts),
            "facts": [place._asdict() | fact._asdict() for place, fact in facts],
        }

    @app.get("/v1/access")
    def explain_access(query: Annotated[AccessQuery, Query()]) -> dict[str, Any]:
        """Whether a key may send an event, and the lines of the registry that decide it."""
        said = list(answers(desk.read().snapshot, query.key, query.event, query.destination))
        return {"may": all(yes for yes, _ in said), "lines": [{"yes": y, "line": line} for y, line in said]}


def _facts(desk: RegistryReader, place: Place, event_type: EventType) -> list[Fact]:
    """Return the facts of one table; an unreachable database is a failed fact, so other tables are shown."""
    try:
        return facts_of(desk.places, place, event_type)
    except InfrastructureError as e:
        return [unanswered(e)]
