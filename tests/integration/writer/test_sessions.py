"""Session settings of a database or a role change no value and fail no transaction of Onramp's."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Final

import psycopg2
import pytest
from psycopg2.extensions import connection

from services.admin.store import control_sql
from services.writer.postgres import pool
from shared.errors import InfrastructureError
from shared.postgres.answering import PersistentConnection
from shared.postgres.connect import connect
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import database_of, rows, set_for_database

#: What a DBA sets, and what a session of Onramp's has.
SETTINGS: Final = {
    "array_nulls": ("off", "on"),
    "bytea_output": ("escape", "hex"),
    "datestyle": ("SQL, DMY", "ISO, DMY"),
    "default_transaction_isolation": ("serializable", "read committed"),
    "extra_float_digits": ("-10", "1"),
    "idle_in_transaction_session_timeout": ("1s", "0"),
    "intervalstyle": ("sql_standard", "postgres"),
    "lc_monetary": ("POSIX", "C"),
    "lock_timeout": ("1s", "0"),
    "quote_all_identifiers": ("on", "off"),
    "standard_conforming_strings": ("off", "on"),
    "statement_timeout": ("1s", "0"),
    "transform_null_equals": ("on", "off"),
    "xmloption": ("document", "content"),
}


@pytest.mark.parametrize("options", ["", "-c timezone=UTC"])
def test_sessions_have_the_usual_settings(database: Database, options: str) -> None:
    settings = dict(SETTINGS)
    if int(rows(database.dsn, "SHOW server_version_num")[0][0]) >= 170_000:
        settings["transaction_timeout"] = ("1s", "0")
    set_for_database(database.dsn, {setting: own for setting, (own, _) in settings.items()})
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute("SHOW intervalstyle")
        assert cursor.fetchone() == ("sql_standard",)
    with closing(connect(database.dsn, name="onramp-test", options=options)) as conn, conn.cursor() as cursor:
        for setting, (_, usual) in settings.items():
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == (usual,), setting


Use = Callable[[], AbstractContextManager[connection]]


def _kept(dsn: str) -> Use:
    return PersistentConnection("test", dsn, lambda: connect(dsn, name="onramp-test")).used


USES: Final[dict[str, Callable[[str], Use]]] = {
    **{
        role: lambda dsn, role=role: lambda: pool.transaction(database_of(dsn), role)  # type: ignore[misc]
        for role in ("land", "driver", "migrate")
    },
    "control": lambda dsn: lambda: control_sql.transaction(dsn),
    "kept": _kept,
}


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_a_session_that_began_read_only_is_not_used_again(
    database: Database, use: Callable[[str], Use]
) -> None:
    lend = use(database.dsn)
    with psycopg2.connect(database.dsn) as conn, conn.cursor() as cursor:
        cursor.execute("CREATE TABLE public.written (n int)")
    conn.close()
    set_for_database(database.dsn, {"default_transaction_read_only": "on"})
    with pytest.raises((InfrastructureError, psycopg2.Error)):
        _write(lend)
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        conn.set_session(readonly=False)
        cursor.execute(f"ALTER DATABASE {conn.info.dbname} RESET default_transaction_read_only")
        conn.commit()
    _write(lend)


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_a_session_that_the_server_ended_is_replaced(database: Database, use: Callable[[str], Use]) -> None:
    lend = use(database.dsn)
    with lend() as conn:
        pid = conn.info.backend_pid
        conn.commit()
    rows(database.dsn, "SELECT pg_terminate_backend(%s, 30000)", pid)
    with lend() as conn:
        assert conn.info.backend_pid != pid
        conn.commit()


def _write(lend: Use) -> None:
    with lend() as conn:
        try:
            with conn.cursor() as cursor:
                cursor.execute("INSERT INTO public.written VALUES (1)")
            conn.commit()
        except psycopg2.Error:
            conn.rollback()
            raise
