"""The routes of sources: their state as the agent reported it, a check, and the SQL that prepares one.

The admin service only reads: a source is added by a change of the registry.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Query
from pydantic import BaseModel, ConfigDict

from services.admin.api.problems import not_stored
from services.admin.waiting_api.each_database import Unreachable, each_database
from services.cdc.setup.check_sql import Fact, facts_or_refusal
from services.cdc.setup.prepare import statements
from services.cdc.setup.source_requests_sql import SILENT_SECONDS, reported
from services.ops.registry.registry_reader import RegistryReader
from shared.postgres.source_dsns import SourceDsns
from shared.registry.sources import Source

SourceName = Annotated[
    str, Path(min_length=1, max_length=63, pattern=r"^[^\x00/]*$", description="Its name.")
]

_UNREPORTED: Final = {
    "state": "unreported",
    "reason": "no agent has reported the source",
    "is_silent": True,
    "report": None,
}


#: Maximum seconds in which one request reads rows: the rest is for `onramp sources check --rows`.
ROW_SECONDS: Final = 10.0


class CheckRows(BaseModel):
    """Whether rows are read, for 10 seconds, to find values that changes cannot represent."""

    model_config = ConfigDict(extra="forbid")

    rows: bool = False


def add_sources(app: FastAPI, databases: Mapping[str, str], desk: RegistryReader, dsns: SourceDsns) -> None:
    """Add the routes."""

    def named(name: str) -> Source:
        found = desk.read().snapshot.sources.get(name)
        if found is None:
            raise not_stored("source")
        return found

    @app.get("/v1/sources")
    def list_sources() -> dict[str, Any]:
        """The sources of the registry, each with the agent's last report of it, or none."""
        registered = desk.read().snapshot.sources
        found = each_database(databases, lambda _, dsn: reported(dsn))
        reports = {
            row["source"]: {"database": name, **row}
            for name, rows in found.items()
            if isinstance(rows, list)
            for row in rows
        }
        return {
            "sources": [
                _view(name, registered.get(name), reports.get(name))
                for name in sorted(registered.keys() | reports.keys())
            ],
            "unreached": {n: each.detail for n, each in found.items() if isinstance(each, Unreachable)},
        }

    @app.get("/v1/sources/{name}/check")
    def check_source(name: SourceName, query: Annotated[CheckRows, Query()]) -> dict[str, Any]:
        """Whether a source can be captured, table by table, with a fix for each problem.

        With `rows` all rows are read, for at most 10 seconds; a fact names the tables that were not read.
        """
        source = named(name)
        found = _facts(name, source, dsns.find(source.dsn_env), rows=query.rows)
        return {
            "holds": all(fact.level != "wrong" for fact in found),
            "facts": [fact._asdict() for fact in found],
        }

    @app.get("/v1/sources/{name}/sql")
    def show_sql(name: SourceName) -> dict[str, Any]:
        """The SQL that a DBA runs at the source before capture: required, then optional statements."""
        source = named(name)
        return {"sql": statements(name, source, dsns.find(source.dsn_env))}


def _facts(name: str, source: Source, dsn: str, *, rows: bool) -> list[Fact]:
    if not dsn:
        return [
            Fact(
                "wrong",
                f"the admin service has no DSN of the source: {source.dsn_env} is not set",
                f"give {source.dsn_env} to the admin service, or run onramp sources check {name} where it is",
            )
        ]
    return facts_or_refusal(name, source, dsn, rows=rows, row_seconds=ROW_SECONDS)


def _view(name: str, source: Source | None, report: dict[str, Any] | None) -> dict[str, Any]:
    shown = {n: v.isoformat() if isinstance(v, datetime) else v for n, v in (report or {}).items()}
    entry = {
        "source": name,
        "registered": source is not None,
        "dsn_env": source and source.dsn_env,
        "schemas": list(source.schemas) if source else [],
        "publish": source and source.publish,
    }
    if report is None:
        return entry | _UNREPORTED
    is_silent = report["looked_s_ago"] > SILENT_SECONDS
    return entry | {
        "state": report["state"],
        "reason": report["reason"],
        "is_silent": is_silent,
        "report": shown,
    }
