"""What a snapshot has seen, told by the query that reads its table: as a message in the source's log.

A blocking snapshot runs a query of ours where it is asked to.  Ours emits a message, which the connector
sends to Kafka, as all messages of the log, once it goes on there.  What it says is of the very snapshot that
the rows are of.  These have nothing that would tell one snapshot from another: what was asked for last before
them is theirs.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

import orjson

from shared.postgres.quoting import identifier

log = logging.getLogger(__name__)

#: Of messages that are meant for the agent; heartbeats have another.
PREFIX: Final = "onramp.snapshot"
#: Divides by zero where the columns are not those that it reads: the task fails, and it is asked for again.
_SELECT: Final = """\
SELECT {columns} FROM {table} WHERE (SELECT pg_catalog.pg_logical_emit_message(false, '{prefix}', \
pg_catalog.jsonb_build_object('token', {token}, 'rows', EXISTS (SELECT FROM {table}), \
'seen', pg_catalog.pg_current_snapshot()::text, \
'lsn', pg_catalog.pg_current_wal_insert_lsn()::text)::text)) IS NOT NULL \
AND (SELECT 1 / (pg_catalog.array_agg(attname::text ORDER BY attnum) = {all})::int \
FROM pg_catalog.pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped) = 1"""


#: Names that are regular expressions of Java for certain; of others some are.
_SIMPLE_NAME: Final = re.compile(r"(?:(?:[^\\()\[{*+?|^]|\\\W|\(\w+\)|\[\w+\])[*+?]?|[|^])*")
#: As Postgres writes them.
_SEEN: Final = re.compile(r"[0-9]+:[0-9]+:[0-9,]*")
_LSN: Final = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")


class Marker(NamedTuple):
    """What the snapshot of a token has seen, as Postgres writes it, and the log's position behind that."""

    token: UUID
    seen: str
    lsn: str
    has_rows: bool


def takes(name: str) -> bool:
    """Whether Debezium takes a condition for a table of this name.

    It reads the name as a regular expression of Java before it takes it as a name: of one that is none it
    would not read the table.
    """
    return _SIMPLE_NAME.fullmatch(name) is not None


def condition(
    token: UUID, *, oid: int, schema: str, name: str, columns: Mapping[str, bool]
) -> dict[str, str]:
    """Return by what a signal has a table be read so that its snapshot tells what it has seen.

    `columns`: all of them in their order, and whether each is generated.
    """
    # With the database in front Debezium takes it for no table that it knows, and says nothing.
    table = f"{identifier(schema)}.{identifier(name)}"
    select = _SELECT.format(
        # A snapshot would carry generated ones, and the connector does not know them.
        columns=", ".join(identifier(column) for column, generated in columns.items() if not generated),
        table=table,
        prefix=PREFIX,
        token=_literal(str(token)),
        all=f"ARRAY[{', '.join(map(_literal, columns))}]::text[]",
        oid=oid,
    )
    return {"data-collection": table, "filter": select}


def told(values: Iterable[bytes | None]) -> list[Marker]:
    """Return what records of a source's messages tell.

    Everybody may emit messages there: what is not as ours are is passed over.
    """
    found: list[Marker] = []
    for value in values:
        try:
            message = orjson.loads(value or b"{}").get("message") or {}
            if message.get("prefix") == PREFIX:
                found.append(_parsed_marker(bytes.fromhex(message["content"])))
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("a message of a source's log is not as the agent's own are, and passed over")
    return found


def _parsed_marker(content: bytes) -> Marker:
    document = orjson.loads(content)
    found = Marker(
        UUID(document["token"]), str(document["seen"]), str(document["lsn"]), document["rows"] is True
    )
    if not (_SEEN.fullmatch(found.seen) and _LSN.fullmatch(found.lsn)):
        raise ValueError
    return found


def _literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
