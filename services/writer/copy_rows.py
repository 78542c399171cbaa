"""COPY: rows into a table the fast way, under a savepoint.

Binary, so that no value can be taken for a delimiter, an escape or the end of the data.
"""

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pgpq
import pyarrow as pa
from pgpq.encoders import StringEncoderBuilder
from pgpq.schema import Jsonb
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.ranges import Partition

_BUFFER_BYTES: Final = 1 << 20
_Encoder = pgpq.ArrowToPostgresBinaryEncoder


@contextmanager
def savepoint(conn: connection) -> Iterator[None]:
    """Undo the block's statements, and nothing else, when it fails."""
    with conn.cursor() as cursor:
        cursor.execute("SAVEPOINT onramp")
        try:
            yield
        except Exception:
            if not conn.closed:
                cursor.execute("ROLLBACK TO SAVEPOINT onramp; RELEASE SAVEPOINT onramp")
            raise
        cursor.execute("RELEASE SAVEPOINT onramp")


def copy_into(
    conn: connection, table: sql.Composable, rows: pa.Table, *, jsonb: frozenset[str] = frozenset()
) -> int:
    """COPY `rows` into the columns of their names; those in `jsonb` are JSON text for jsonb columns.

    Returns how many rows the table took: fewer than were sent when a trigger swallowed some.
    """
    columns = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, columns)
    with conn.cursor() as cursor:
        cursor.copy_expert(statement.as_string(cursor), io.BytesIO(_encode(rows, jsonb)), _BUFFER_BYTES)
        return int(cursor.rowcount)


def _encode(rows: pa.Table, jsonb: frozenset[str]) -> bytes:
    encoders = {
        f.name: StringEncoderBuilder.new_with_output(f, Jsonb())
        if f.name in jsonb
        else _Encoder.infer_encoder(f)
        for f in rows.schema
    }
    encoder = _Encoder.new_with_encoders(rows.schema, encoders)
    buffer = bytearray(encoder.write_header())
    for batch in rows.to_batches():
        buffer += encoder.write_batch(batch)
    buffer += encoder.finish()
    return bytes(buffer)


def by_partition(rows: pa.Table) -> Counter[Partition]:
    """How many of `rows` came from each partition."""
    groups = rows.group_by(["_topic", "_partition"]).aggregate([([], "count_all")]).to_pylist()
    return Counter({Partition(g["_topic"], g["_partition"]): g["count_all"] for g in groups})
