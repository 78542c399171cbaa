"""The placeholder in a change for a large value that its update left unchanged (TOAST), by column type.

The log does not carry such a value, so Debezium sends `unavailable.value.placeholder` instead, as a value of
the column's type.  For most arrays it has no placeholder and sends NULL, as for a value that is NULL
(`column_types.is_silent`). The two are the same only if the value before is NULL too.
"""

from base64 import b64encode
from hashlib import md5
from typing import Any, Final
from uuid import UUID

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge.public_table import PublicTable
from services.cdc.merge.suspended import SuspendedError

TEXT: Final = "__debezium_unavailable_value"
_BYTES: Final = TEXT.encode()
_UUID: Final = str(UUID(bytes=md5(_BYTES, usedforsecurity=False).digest(), version=3))
_KINDS: Final[tuple[Any, ...]] = (
    TEXT,
    _BYTES.hex(),
    b64encode(_BYTES).decode(),
    [TEXT],
    [_BYTES.hex()],
    list(_BYTES),
    {TEXT: TEXT},
    orjson.dumps({TEXT: TEXT}).decode(),
    [_UUID],
)
#: SQL for an array of all placeholders.
ALL: Final = sql.SQL("ARRAY[{}]::jsonb[]").format(
    sql.SQL(", ").join(sql.Literal(orjson.dumps(kind).decode()) for kind in _KINDS)
)
#: Texts of which a change with a placeholder has at least one; a change with one may have no placeholder.
_SIGNS: Final = (TEXT, _BYTES.hex(), b64encode(_BYTES).decode(), _UUID, ", ".join(map(str, _BYTES[:8])))
SIGNS: Final = sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(sql.Literal(f"%{sign}%") for sign in _SIGNS))
_IS_NULL: Final = """
    SELECT EXISTS (SELECT FROM pg_temp.onramp_batch b, unnest(%s::text[]) AS silent (name)
                   WHERE op IN ('u', 'c') AND after -> name = 'null')
"""
#: The value before: of an earlier change of the key, else the public row's.  A key change is a delete and a
#: create of one log record.  A column that a change lacks did not exist then.
_UNSURE: Final = sql.SQL("""
    WITH told AS (
        SELECT at, op, lsn, ord, key, after, lag(after) OVER (PARTITION BY key ORDER BY at) AS earlier
        FROM pg_temp.onramp_batch WHERE op <> 't'
    ), paired AS (
        SELECT *, lag(key) OVER w AS old_key, lag(earlier) OVER w AS old_earlier,
               lag(op) OVER w = 'd' AND lag(lsn) OVER w = lsn AND lag(ord) OVER w = ord - 1 AS is_moved
        FROM told WINDOW w AS (ORDER BY at)
    ), f AS (
        SELECT at, name, after, CASE op WHEN 'u' THEN key ELSE old_key END AS key,
               CASE op WHEN 'u' THEN earlier ELSE old_earlier END AS earlier
        FROM paired, unnest({silent}) AS silent (name)
        WHERE (op = 'u' OR op = 'c' AND is_moved) AND after -> name = 'null'
    )
    SELECT f.at, f.name FROM f LEFT JOIN {table} p ON f.earlier IS NULL AND {same}
    WHERE CASE WHEN f.earlier IS NOT NULL THEN coalesce(f.earlier -> f.name, 'null') <> 'null'
               WHEN p IS DISTINCT FROM NULL THEN to_jsonb(p) -> f.name <> 'null'
               ELSE (SELECT {where} FROM (SELECT f.after AS after) AS cleaned) IS TRUE END
    ORDER BY 1, 2 LIMIT 1
""")
_UNSURE_BY_WHOLE_ROW: Final = sql.SQL("""
    SELECT at, name FROM pg_temp.onramp_batch, unnest({silent}) AS silent (name)
    WHERE op = 'u' AND after -> name = 'null' AND before -> name <> 'null' ORDER BY 1, 2 LIMIT 1
""")
_UNSURE_OF: Final = (
    "the update at offset {} has NULL in {}, which had a value: it is NULL now, or an unchanged large "
    "array, which changes of this type do not distinguish: re-snapshot the source "
    "(onramp sources resync {}); to prevent this, give the column another type there (text[], jsonb), or "
    'leave it out (models: "{}": null)'
)


def require_known_values(conn: connection, table: PublicTable) -> None:
    """Raise `SuspendedError` where an update has NULL for a large value that may be unchanged."""
    with conn.cursor() as cursor:
        if not table.silent:
            return
        cursor.execute(_IS_NULL, (list(table.silent),))
        if cursor.fetchone() != (True,):
            return
        statement = _UNSURE if table.key else _UNSURE_BY_WHOLE_ROW
        cursor.execute(
            statement.format(
                silent=sql.Literal(list(table.silent)),
                table=table.identifier,
                same=table.same_key("p", sql.SQL("f.key")),
                where=sql.SQL(table.cleaning.where or "true"),
            )
        )
        if unsure := cursor.fetchone():
            at, name = unsure
            raise SuspendedError(_UNSURE_OF.format(at, name, table.source.source, name))
