"""The marker of a snapshot: a message in the source's log that says which transactions its rows include.

A blocking snapshot runs a query that the signal may set.  The agent's query emits a logical message, which
the connector sends to Kafka once it continues with the log.  The message describes the same database snapshot
as the rows.  The rows themselves carry no snapshot id: they belong to the last request before them.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

import orjson

from shared.postgres.quoting import identifier

log = logging.getLogger(__name__)

#: The prefix of the agent's messages; heartbeats have another.
PREFIX: Final = "onramp.snapshot"
#: The division by zero makes the task fail when the columns have changed; the agent requests it again.
_SELECT: Final = """\
SELECT {columns} FROM {table} WHERE (SELECT pg_catalog.pg_logical_emit_message(false, '{prefix}', \
pg_catalog.jsonb_build_object('token', {token}, 'rows', EXISTS (SELECT FROM {table}), \
'snapshot', pg_catalog.pg_current_snapshot()::text, \
'lsn', pg_catalog.pg_current_wal_insert_lsn()::text)::text)) IS NOT NULL \
AND (SELECT 1 / (pg_catalog.array_agg(attname::text ORDER BY attnum) = {all})::int \
FROM pg_catalog.pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped) = 1"""


#: Names that are certainly valid Java regular expressions; some other names are valid too.
_SIMPLE_NAME: Final = re.compile(r"(?:(?:[^\\()\[{*+?|^]|\\\W|\(\w+\)|\[\w+\])[*+?]?|[|^])*")
#: The text format of Postgres.
_SNAPSHOT: Final = re.compile(r"[0-9]+:[0-9]+:[0-9,]*")
_LSN: Final = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")


class Marker(NamedTuple):
    """The marker of a snapshot: its pg_snapshot, and a later position in the log."""

    token: UUID
    snapshot: str
    lsn: str
    has_rows: bool


def takes(name: str) -> bool:
    """Return whether Debezium accepts a condition for a table of this name.

    Debezium reads the name as a Java regular expression before it compares it as a name. It would skip a
    table whose name is not a valid expression.
    """
    return _SIMPLE_NAME.fullmatch(name) is not None


def condition(
    token: UUID, *, oid: int, schema: str, name: str, columns: Mapping[str, bool]
) -> dict[str, str]:
    """Return the condition of a signal that makes the table's snapshot emit its marker.

    `columns`: all columns in their order, and whether each is generated.
    """
    # With the database in front Debezium would not recognise the table, and would report nothing.
    table = f"{identifier(schema)}.{identifier(name)}"
    select = _SELECT.format(
        # A snapshot would include generated columns, which the connector does not know.
        columns=", ".join(identifier(column) for column, generated in columns.items() if not generated),
        table=table,
        prefix=PREFIX,
        token=_literal(str(token)),
        all=f"ARRAY[{', '.join(map(_literal, columns))}]::text[]",
        oid=oid,
    )
    return {"data-collection": table, "filter": select}


def markers_in(values: Iterable[bytes | None]) -> list[Marker]:
    """Return the markers among a source's logical messages.

    Any program may emit messages with that prefix: malformed ones are skipped.
    """
    found: list[Marker] = []
    for value in values:
        try:
            message = orjson.loads(value or b"{}").get("message") or {}
            if message.get("prefix") == PREFIX:
                found.append(_parsed_marker(bytes.fromhex(message["content"])))
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("skipped a malformed message in a source's log")
    return found


def _parsed_marker(content: bytes) -> Marker:
    document = orjson.loads(content)
    found = Marker(
        UUID(document["token"]), str(document["snapshot"]), str(document["lsn"]), document["rows"] is True
    )
    if not (_SNAPSHOT.fullmatch(found.snapshot) and _LSN.fullmatch(found.lsn)):
        raise ValueError
    return found


def _literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
