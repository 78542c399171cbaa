"""The route of the statement: a period's records by topic and destination, and the differences."""

from typing import Annotated, Any

from fastapi import FastAPI, Query

from services.admin.api.queries import StatementQuery
from services.admin.statements.period import Statements
from shared import wire
from shared.registry import Registry


def add_statement(app: FastAPI, statements: Statements, registry: Registry) -> None:
    """Add the route."""

    @app.get("/v1/statement")
    async def statement(query: Annotated[StatementQuery, Query()]) -> dict[str, Any]:
        """Records of a period by topic and destination, with their outcomes; exact up to `final_until`.

        A period begins and ends at the nearest stored reading. `parked_now` has the period's parked events
        by their state when the statement is made.
        """
        since, until = query.period
        topic = topic_of_type(registry, query.type)
        found = await statements.of(since, until, lambda name: topic in (None, name))
        return found.as_dict()


def topic_of_type(registry: Registry, name: str | None) -> str | None:
    """Return the topic of an event type, or None without a type."""
    if name is None:
        return None
    return registry.snapshot().topic_of(name) if registry.is_read else wire.topic_of(name)
