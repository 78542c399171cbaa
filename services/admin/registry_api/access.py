"""Routes for questions about the registry: where events land, whether they can, who may send them."""

from typing import Annotated, Any, Final

from fastapi import FastAPI, Query

from services.admin.api.rights import Asking
from services.admin.registry_api.changes import require_there
from services.admin.registry_api.checked_tables import CheckedTables
from services.admin.registry_api.schemas import AccessQuery, CheckQuery
from services.ops.registry.access import answers
from services.ops.registry.checks import facts_of_tables, tables_of
from services.ops.registry.registry_reader import RegistryReader
from shared.errors import BAD_QUERY, UserError

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
        found = dict(facts_of_tables(desk.places, tables))
        facts = [(place, fact) for place, _ in tables for fact in found[place]]
        return {
            "holds": all(fact.holds for _, fact in facts),
            "facts": [place._asdict() | fact._asdict() for place, fact in facts],
        }

    @app.get("/v1/access")
    def explain_access(query: Annotated[AccessQuery, Query()]) -> dict[str, Any]:
        """Whether a key may send an event, and the lines of the registry that decide it."""
        said = list(answers(desk.read().snapshot, query.key, query.event, query.destination))
        return {"may": all(yes for yes, _ in said), "lines": [{"yes": y, "line": line} for y, line in said]}
