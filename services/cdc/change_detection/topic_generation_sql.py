"""The topic generation that a table follows: a recreated topic has a new UUID, and reuses the offsets.

Landing does not distinguish generations, and the merger suspends a table that two topics feed.  A resync
drops the older generations: their landed changes from the end of the current topic on are deleted.
"""

from typing import Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor

from shared import change_table

#: Parked, trimmed and repeated changes of older generations do not count for this one.
_FOLLOW: Final = """
    WITH others AS (
        SELECT ARRAY(SELECT DISTINCT t.topic_id FROM onramp.totals t
                     WHERE t.destination = %(destination)s AND t.topic_id IS DISTINCT FROM %(topic)s::uuid
                     ORDER BY 1) AS ids
    )
    UPDATE onramp.table_settings SET past_topics = others.ids, topic_id = %(topic)s, next_offset = %(end)s,
        trimmed_to = NULL, parked_known = 0, carried = NULL, last_commit = NULL, last_order = NULL
    FROM others
    WHERE source = %(source)s AND schema_name = %(schema)s AND table_name = %(table)s
      AND (NOT others.ids <@ past_topics OR topic_id <> coalesce(%(topic)s, topic_id))
"""
_KNOW: Final = """
    INSERT INTO onramp.table_settings (source, schema_name, table_name, landing) VALUES (%s, %s, %s, %s)
    ON CONFLICT DO NOTHING
"""
_LEAVE: Final = sql.SQL("DELETE FROM {} WHERE _offset >= %s")


class End(NamedTuple):
    """The next offset of a topic and its UUID; the defaults stand for a topic that does not exist."""

    offset: int = 0
    topic_id: str | None = None


def has_landed(cur: cursor, table: tuple[str, str, str]) -> bool:
    """Return whether the landing table exists: the writer creates it with the first change."""
    cur.execute("SELECT to_regclass(%s)", (_landing(table).as_string(cur),))
    return cur.fetchone() != (None,)


def know(cur: cursor, table: tuple[str, str, str]) -> None:
    """Insert the table's row in `onramp.table_settings` if changes landed before the merger's first poll."""
    if has_landed(cur, table):
        cur.execute(_KNOW, (*table, change_table.name_of(*table)))


def follow(cur: cursor, table: tuple[str, str, str], end: End) -> None:
    """Have the table follow the topic of `end` from there on, if another topic ever fed it."""
    source, schema, name = table
    asked = {
        "source": source,
        "schema": schema,
        "table": name,
        "destination": f"{change_table.SCHEMA}.{change_table.name_of(*table)}",
        "topic": end.topic_id,
        "end": end.offset,
    }
    cur.execute(_FOLLOW, asked)
    if cur.rowcount and has_landed(cur, table):
        cur.execute(_LEAVE.format(_landing(table)), (end.offset,))


def _landing(table: tuple[str, str, str]) -> sql.Identifier:
    return sql.Identifier(change_table.SCHEMA, change_table.name_of(*table))
