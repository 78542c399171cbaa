"""COPY in text format: every text is stored unchanged, also with COPY's special characters."""

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg2 import sql

from services.writer.persist import copy
from services.writer.persist.copy import all_or_none, copy_texts
from tests.fixtures.fix_postgres import Database

_TABLE = sql.Identifier("copied")
_TEXTS = (
    st.none()
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
    | st.sampled_from(
        [
            "",
            "\\N",
            "\\.",
            "\\",
            "\\\\N",
            "a\tb",
            "\n",
            "\r\n",
            "\\n",
            "\b\f\v",
            "NULL",
            '"',
            "\\x41",
            "\\101",
        ]
    )
)


@pytest.fixture
def conn(database: Database) -> Iterator[psycopg2.extensions.connection]:
    with closing(psycopg2.connect(database.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute("CREATE TABLE copied (n serial, a text, b text, k int UNIQUE)")
        yield conn


def _copy(conn: psycopg2.extensions.connection, rows: list[tuple[str | None, str | None]]) -> int:
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in (0, 1)]
    return copy_texts(conn, _TABLE, pa.table(columns, ["a", "b"]))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_TEXTS, _TEXTS), min_size=1, max_size=20))
def test_every_text_comes_back(
    conn: psycopg2.extensions.connection, rows: list[tuple[str | None, str | None]]
) -> None:
    with conn.cursor() as cursor:
        cursor.execute("TRUNCATE copied")
        assert _copy(conn, rows) == len(rows)
        cursor.execute("SELECT a, b FROM copied ORDER BY n")
        assert cursor.fetchall() == rows


def test_a_slice_is_copied_as_the_slice_it_is(conn: psycopg2.extensions.connection) -> None:
    column = pa.array(["before", "\t", "after"]).slice(1, 1)
    assert copy_texts(conn, _TABLE, pa.table([column, column], ["a", "b"])) == 1
    with conn.cursor() as cursor:
        cursor.execute("SELECT a, b FROM copied")
        assert cursor.fetchall() == [("\t", "\t")]


@pytest.mark.parametrize(
    ("key", "state"), [("1", "23505"), ("one", "22P02"), ("99999999999", "22003"), ("\0", "22021")]
)
def test_copy_with_a_refused_row_leaves_no_row(
    conn: psycopg2.extensions.connection, key: str, state: str
) -> None:
    assert all_or_none(conn, 2, lambda: copy_texts(conn, _TABLE, pa.table({"k": ["1", key]}))) == state
    with conn.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM copied")
        assert cursor.fetchall() == [(0,)]


def test_a_swallowed_row_leaves_none_of_its_neighbours(conn: psycopg2.extensions.connection) -> None:
    with conn.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN IF NEW.k = 2 THEN RETURN NULL; END IF; RETURN NEW; END';"
            "CREATE TRIGGER swallow BEFORE INSERT ON copied FOR EACH ROW EXECUTE FUNCTION swallow()"
        )
        assert all_or_none(conn, 2, lambda: copy_texts(conn, _TABLE, pa.table({"k": ["1", "2"]}))) == ""
        cursor.execute("SELECT count(*) FROM copied")
        assert cursor.fetchall() == [(0,)]


def test_more_rows_than_are_made_ready_at_once_come_back_in_order(
    conn: psycopg2.extensions.connection,
) -> None:
    rows = [(str(n), "\t" * (n % 3)) for n in range(25_001)]
    assert _copy(conn, rows) == len(rows)
    with conn.cursor() as cursor:
        cursor.execute("SELECT a, b FROM copied ORDER BY n")
        assert cursor.fetchall() == rows


def test_error_while_copy_data_is_generated_is_raised_unchanged(
    conn: psycopg2.extensions.connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq only says that the statement was cancelled, as if somebody had blocked the table."""

    def no_lines(_: object) -> Iterator[bytes]:
        yield b"a\tb\n"
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(copy, "_lines", no_lines)
    with pytest.raises(ValueError, match="of ours"):
        all_or_none(conn, 2, lambda: _copy(conn, [("a", "b")] * 2))
    monkeypatch.undo()
    assert _copy(conn, [("a", "b")]) == 1, "the transaction goes on"
