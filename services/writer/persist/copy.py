"""COPYs rows into a table, the fast method, under a savepoint.

The data are in binary format if Onramp knows the column types, so that no value can be mistaken for a
delimiter, an escape or the end of the data.  They are escaped text if the table's owner chose the types.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pgpq
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from pgpq.encoders import StringEncoderBuilder
from pgpq.schema import Jsonb
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.postgres.sqlstates import Verdict, verdict
from shared.kafka_read.arrow_bytes import joined
from shared.kafka_read.offsets import Partition

_BUFFER_BYTES: Final = 1 << 20
#: Rows encoded for COPY at a time.
_ROWS: Final = 10_000
#: Minimum rows to group by Arrow; Python counts fewer rows faster.
_FEW: Final = 1_000
_NULL: Final = "\\N"
_BACKSLASH: Final = ord("\\")
_SPACE: Final = ord(" ")
_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_Encoder = pgpq.ArrowToPostgresBinaryEncoder
Buffer = bytes | memoryview


@contextmanager
def savepoint(conn: connection) -> Iterator[None]:
    """Roll back only the block's statements if the block raises; costs two round trips."""
    with conn.cursor() as cursor:
        cursor.execute("SAVEPOINT onramp")
        try:
            yield
        except Exception:
            if not conn.closed:
                cursor.execute("ROLLBACK TO SAVEPOINT onramp; RELEASE SAVEPOINT onramp")
            raise
        cursor.execute("RELEASE SAVEPOINT onramp")


def all_or_none(conn: connection, rows: int, copy: Callable[[], int]) -> str | None:
    """Run `copy` under a savepoint, so that all of `rows` (their number) land, or none.

    Return None if all landed, otherwise the SQLSTATE of the failure, which is "" if the table accepted
    fewer rows than it was sent.  Raise psycopg2's error if the rows are not at fault.
    """
    try:
        with savepoint(conn):
            require_all(complete=copy() == rows)
    except MissingRowsError:
        return ""
    except psycopg2.Error as e:
        if verdict(e.pgcode) is not Verdict.PARK:
            raise
        return str(e.pgcode)
    return None


class MissingRowsError(Exception):
    """A statement wrote fewer rows than it was given: a trigger or a rule suppressed some."""


def require_all(*, complete: bool) -> None:
    """Raise `MissingRowsError` unless all rows were written; call it within the savepoint to roll back."""
    if not complete:
        raise MissingRowsError


def copy_into(
    conn: connection, table: sql.Composable, rows: pa.Table, *, jsonb: frozenset[str] = frozenset()
) -> int:
    """COPY `rows` in binary format into the columns of the same names; columns in `jsonb` hold JSON text.

    Return the number of rows written: fewer than were sent if a trigger suppressed some.
    """
    return _copy(conn, table, rows.column_names, "FORMAT binary", _encoded(rows, jsonb))


def copy_texts(conn: connection, table: sql.Composable, rows: pa.Table) -> int:
    """COPY `rows` of text (without NUL) into the columns of the same names, which may have any type.

    Each type's input function parses its text.  Return the number of rows written.
    """
    return _copy(conn, table, rows.column_names, "FORMAT text", _lines(rows))


def _copy(
    conn: connection, table: sql.Composable, names: Sequence[str], options: str, data: Iterable[Buffer]
) -> int:
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    statement = sql.SQL("COPY {} ({}) FROM STDIN ({})").format(table, columns, sql.SQL(options))
    with conn.cursor() as cursor:
        stream = _Stream(data)
        try:
            cursor.copy_expert(statement.as_string(cursor), io.BufferedReader(stream), _BUFFER_BYTES)
        except psycopg2.errors.QueryCanceled as e:
            raise stream.error or e from None
        return int(cursor.rowcount)


class _Stream(io.RawIOBase):
    """A file whose pieces are produced when they are read, so that a COPY is never in memory as a whole."""

    def __init__(self, pieces: Iterable[Buffer]) -> None:
        self._pieces = iter(pieces)
        self._left = memoryview(b"")
        #: The error while producing a piece; libpq reports only that it canceled the statement.
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer` with the next bytes; return their number, 0 at the end."""
        try:
            while not self._left:
                self._left = memoryview(next(self._pieces)).cast("B")
        except StopIteration:
            return 0
        except Exception as e:
            self.error = e
            raise
        n = min(len(buffer), len(self._left))
        buffer[:n], self._left = self._left[:n], self._left[n:]
        return n


def _lines(rows: pa.Table) -> Iterator[Buffer]:
    """Encode `rows` in COPY's text format, https://www.postgresql.org/docs/current/sql-copy.html."""
    for batch in rows.to_batches(max_chunksize=_ROWS):
        fields = [_escaped(column) for column in batch.columns]
        lines = pc.binary_join_element_wise(*fields, "\t", null_handling="replace", null_replacement=_NULL)
        yield joined(pc.binary_join_element_wise(lines, "", "\n"))


def _escaped(column: pa.Array) -> pa.Array:
    """Escape the backslashes and control characters that have a meaning to COPY."""
    raw = np.frombuffer(joined(column), np.uint8)
    if not ((raw == _BACKSLASH) | (raw < _SPACE)).any():
        return column
    for sign, escape in _ESCAPES:  # the backslash first: the other escapes contain one
        column = pc.replace_substring(column, sign, escape)
    return column


def _encoded(rows: pa.Table, jsonb: frozenset[str]) -> Iterator[Buffer]:
    """Encode `rows` in COPY's binary format."""
    encoders = {
        f.name: StringEncoderBuilder.new_with_output(f, Jsonb())
        if f.name in jsonb
        else _Encoder.infer_encoder(f)
        for f in rows.schema
    }
    encoder = _Encoder.new_with_encoders(rows.schema, encoders)
    yield encoder.write_header()
    for batch in rows.to_batches(max_chunksize=_ROWS):
        yield encoder.write_batch(batch)
    yield encoder.finish()


def by_partition(rows: pa.Table) -> Counter[Partition]:
    """Count `rows` by their Kafka partition."""
    if rows.num_rows < _FEW:
        pairs = zip(rows.column("_topic").to_pylist(), rows.column("_partition").to_pylist(), strict=True)
        return Counter(map(Partition._make, pairs))
    groups = rows.group_by(["_topic", "_partition"]).aggregate([([], "count_all")]).to_pylist()
    return Counter({Partition(g["_topic"], g["_partition"]): g["count_all"] for g in groups})
