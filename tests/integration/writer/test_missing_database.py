"""A database that does not exist is reported as missing, not as unreachable."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from services.admin.attempts import Destination
from services.admin.store import control_sql
from services.admin.store.staging_sql import in_destination
from services.cdc.agent import source_state_sql as agent_sql
from services.cdc.agent.source_sql import SourceDatabase, SourceError
from services.ops import parked_store_sql, totals_sql
from services.ops.operate import create_sql
from services.ops.operate.halts_sql import halt_of
from services.writer.postgres import pool
from shared.errors import InfrastructureError
from shared.postgres.failures import failure, is_missing
from shared.registry.sources import Source
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import database_of

SOURCE: Final = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("public",), publish="shop")


def _entered(block: AbstractContextManager[Any]) -> None:
    with block:
        raise AssertionError("the database is there")


#: Whatever reports a database, and what it calls it.
REPORTS: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "writer": (lambda dsn: _entered(pool.connected(database_of(dsn), "land")), "database onramp"),
    "audit": (lambda dsn: _entered(totals_sql.opened("onramp", dsn)), "database onramp"),
    "halts": (lambda dsn: halt_of("onramp", dsn), "database onramp"),
    "replays": (lambda dsn: _entered(in_destination(Destination("onramp", dsn))), "database onramp"),
    "apply": (
        lambda dsn: create_sql.role_of(create_sql.Owner("onramp", dsn)),
        "no table was created: database onramp",
    ),
    "audit of parked events": (lambda dsn: _entered(parked_store_sql.opened(dsn)), "the control database"),
    "control": (lambda dsn: _entered(control_sql.transaction(dsn)), "the control database"),
    "agent": (lambda dsn: SourceDatabase("shop", SOURCE, dsn).inspect(), "the source"),
    "published": (agent_sql.sources_in, "the database that it is published to"),
}


@pytest.mark.parametrize(("report", "name"), REPORTS.values(), ids=list(REPORTS))
def test_missing_database_is_reported_as_nonexistent_with_its_sqlstate(
    postgres: HasDsn, report: Callable[[str], Any], name: str
) -> None:
    with pytest.raises((InfrastructureError, SourceError, agent_sql.StateStoreError)) as raised:
        report(make_dsn(postgres.dsn, dbname="nowhere"))
    assert str(getattr(raised.value, "detail", raised.value)) == f"{name} does not exist (SQLSTATE 3D000)"


@pytest.mark.parametrize(
    ("words", "is_so"),
    [
        ('connection to server at "x" failed: FATAL:  database "a ""b" does not exist\n', True),
        ("FATAL:  no such database: x", True),
        ('FATAL:  role "database" does not exist', False),
        ("Connection refused", False),
    ],
)
def test_it_is_known_by_the_words_of_the_server_or_pgbouncer(words: str, *, is_so: bool) -> None:
    assert is_missing(psycopg2.OperationalError(words)) is is_so


def test_other_connection_failure_is_reported_with_its_sqlstate() -> None:
    assert failure("x", psycopg2.OperationalError("refused")) == "x: SQLSTATE none (it cannot be reached)"
