"""What a database or a role has set for itself changes no value and fails no transaction of Onramp's."""

from contextlib import closing
from typing import Final

import psycopg2
import pytest

from shared.postgres.connect import connect
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import set_for_database

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
    set_for_database(database.dsn, {setting: own for setting, (own, _) in SETTINGS.items()})
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute("SHOW intervalstyle")
        assert cursor.fetchone() == ("sql_standard",)
    with closing(connect(database.dsn, name="onramp-test", options=options)) as conn, conn.cursor() as cursor:
        for setting, (_, usual) in SETTINGS.items():
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == (usual,), setting
