"""Merges staged changes into a table with a key: folded to one outcome for each key, then applied.

An update omits large values that it did not touch: the value is then that of an earlier staged change of the
same key, else the old row's.  A change of the key arrives as a delete and a create. Where the create omits a
value, the pair is applied by itself as an update, so that the row keeps its value.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge import placeholders
from services.cdc.merge.public_table import PublicTable
from services.cdc.merge.suspended import SuspendedError

_NO_KEY: Final = """
    SELECT min(at) FROM pg_temp.onramp_batch
    WHERE op <> 't' AND (key IS NULL OR key @> '[null]' OR op <> 'd' AND after IS NULL)
"""
_IS_LEFT_OUT: Final = "SELECT EXISTS (SELECT FROM pg_temp.onramp_batch WHERE toast)"
_LEFT_OUT: Final = "SELECT EXISTS (SELECT FROM pg_temp.onramp_batch WHERE op = 'c' AND toast)"
#: Creates that omit a value, each with the delete before it of the same log record.
_PAIRS: Final = """
    SELECT CASE WHEN op_before = 'd' AND lsn_before = lsn AND ord_before = ord - 1 THEN at_before END,
           at, key_before::text, key::text
    FROM (SELECT at, op, toast, lsn, ord, key, lag(at) OVER w AS at_before, lag(op) OVER w AS op_before,
                 lag(lsn) OVER w AS lsn_before, lag(ord) OVER w AS ord_before, lag(key) OVER w AS key_before
          FROM pg_temp.onramp_batch WINDOW w AS (ORDER BY at)) AS told
    WHERE op = 'c' AND toast ORDER BY at
"""
#: Where no value was omitted, the last change of a key is complete.
_LAST: Final = sql.SQL("""
    INSERT INTO pg_temp.onramp_fold
    SELECT b.key, b.op = 'd', b.after, false, false, b.lsn, b.ms
    FROM pg_temp.onramp_batch b JOIN (
        SELECT max(at) AS at FROM pg_temp.onramp_batch
        WHERE at >= {start} AND at < {stop} AND op <> 't' GROUP BY key) AS last ON last.at = b.at
""")
_FOLD: Final = sql.SQL("""
    WITH span AS MATERIALIZED (
        SELECT * FROM pg_temp.onramp_batch WHERE at >= {start} AND at < {stop} AND op <> 't'
    ), last AS MATERIALIZED (
        SELECT DISTINCT ON (key) key, at, op, after, toast, lsn, ms FROM span ORDER BY key, at DESC
    ), based AS (
        SELECT span.key, max(span.at) FILTER (WHERE span.op <> 'u') AS since
        FROM span JOIN last ON last.key = span.key AND last.toast GROUP BY 1
    ), latest AS (
        SELECT DISTINCT ON (span.key, c.key) span.key, c.key AS name, c.value
        FROM span JOIN based ON based.key = span.key AND span.at >= coalesce(based.since, {start})
        JOIN last ON last.key = span.key, jsonb_each(span.after) c
        WHERE last.after ? c.key
        ORDER BY span.key, c.key, c.value = ANY ({all}), span.at DESC
    ), filled AS (
        SELECT key, jsonb_object_agg(name, value) AS row, bool_or(value = ANY ({all})) AS keeps
        FROM latest GROUP BY 1
    )
    INSERT INTO pg_temp.onramp_fold
    SELECT last.key, last.op = 'd', coalesce(filled.row, last.after), coalesce(filled.keeps, false),
           based.since IS NOT NULL, last.lsn, last.ms
    FROM last LEFT JOIN filled ON filled.key = last.key LEFT JOIN based ON based.key = last.key
""")
_FOLDED: Final = """
    SELECT count(*) FILTER (WHERE gone), count(*) FILTER (WHERE keeps AND NOT gone),
           count(*) FILTER (WHERE keeps AND based AND NOT gone) FROM pg_temp.onramp_fold
"""
#: Where the cleaning condition reads an omitted value, the old row's is used, as text.
_CLEAN: Final = sql.SQL("""
    UPDATE pg_temp.onramp_fold fold SET gone = true, keeps = false FROM (
        SELECT f.key, f.row || coalesce((
            SELECT jsonb_object_agg(r.key, to_jsonb(p) ->> r.key)
            FROM jsonb_each(f.row) r WHERE p IS NOT NULL AND r.value = ANY ({all})), '{{}}') AS after
        FROM pg_temp.onramp_fold f LEFT JOIN {table} p ON f.keeps AND {same} WHERE NOT f.gone
    ) AS cleaned WHERE cleaned.key = fold.key AND ({where}) IS NOT TRUE
""")
_DELETE: Final = sql.SQL("DELETE FROM {table} p USING pg_temp.onramp_fold f WHERE f.gone AND {same}")
_UPSERT: Final = sql.SQL("""
    INSERT INTO {table} ({columns})
    SELECT {values} FROM pg_temp.onramp_fold f WHERE NOT f.gone AND NOT f.keeps
    ON CONFLICT ({key}) DO UPDATE SET {sets}
""")
_UPDATE: Final = sql.SQL("""
    UPDATE {table} p SET {sets} FROM pg_temp.onramp_fold f WHERE f.keeps AND NOT f.gone AND {same}
""")
_REKEY: Final = sql.SQL("""
    UPDATE {table} p SET {sets} FROM (
        SELECT d.key AS old_key, c.after AS row, c.lsn, c.ms
        FROM unnest({olds}::int8[], {news}::int8[]) AS pair (old, new)
        JOIN pg_temp.onramp_batch d ON d.at = pair.old
        JOIN pg_temp.onramp_batch c ON c.at = pair.new
    ) AS f WHERE {same}
""")
_MISSING: Final = (
    "an update omits an unchanged large value, and the public table lacks its row: "
    "re-snapshot the source (onramp sources resync {source})"
)


class Pair(NamedTuple):
    """A change of a key: the offsets of its delete and its create, and the two keys as text."""

    old: int
    new: int
    old_key: str
    new_key: str


class Span(NamedTuple):
    """Changes `[start, stop)` that are folded together, or pairs that are applied as updates."""

    start: int
    stop: int
    pairs: Sequence[Pair] = ()


def merge(conn: connection, table: PublicTable, start: int, stop: int) -> None:
    """Apply the staged changes of `[start, stop)`.  Raises `SuspendedError` or psycopg2's error."""
    if (at := _one(conn, _NO_KEY)) is not None:
        raise SuspendedError(
            f"the change at offset {at} has no value for the key ({', '.join(table.key)}): the key has "
            f"changed; re-snapshot the source (onramp sources resync {table.source.source})"
        )
    is_left_out = bool(_one(conn, _IS_LEFT_OUT))
    pairs = _pairs(conn, table) if is_left_out and _one(conn, _LEFT_OUT) else []
    for span in spans([p for p in pairs if start <= p.old and p.new < stop], start, stop):
        if span.pairs:
            _rekey(conn, table, span.pairs)
        else:
            _merge(conn, table, span, _FOLD if is_left_out else _LAST)


def spans(pairs: Sequence[Pair], start: int, stop: int) -> Iterator[Span]:
    """Cut `[start, stop)` at `pairs`; neighbours without a common key are applied together."""
    group: list[Pair] = []
    keys: set[str] = set()
    for pair in pairs:
        if group and (pair.old != group[-1].new + 1 or keys & {pair.old_key, pair.new_key}):
            yield Span(group[0].old, group[-1].new + 1, group)
            start, group, keys = group[-1].new + 1, [], set()
        if not group and start < pair.old:
            yield Span(start, pair.old)
        group.append(pair)
        keys |= {pair.old_key, pair.new_key}
    if group:
        yield Span(group[0].old, group[-1].new + 1, group)
        start = group[-1].new + 1
    if start < stop:
        yield Span(start, stop)


def _pairs(conn: connection, table: PublicTable) -> list[Pair]:
    with conn.cursor() as cursor:
        cursor.execute(_PAIRS)
        found = cursor.fetchall()
    if any(old is None for old, *_ in found):
        raise SuspendedError(_MISSING.format(source=table.source.source))
    return [Pair(*row) for row in found]


def _merge(conn: connection, table: PublicTable, span: Span, fold: sql.SQL) -> None:
    with conn.cursor() as cursor:
        cursor.execute("DELETE FROM pg_temp.onramp_fold")
        cursor.execute(
            fold.format(start=sql.Literal(span.start), stop=sql.Literal(span.stop), all=placeholders.ALL)
        )
        same = table.same_key("p", sql.SQL("f.key"))
        if table.cleaning.where:
            where = sql.SQL(table.cleaning.where)
            cursor.execute(
                _CLEAN.format(table=table.identifier, same=same, all=placeholders.ALL, where=where)
            )
        cursor.execute(_FOLDED)
        gone, keeping, lost = cursor.fetchone() or (0, 0, 0)
        if lost:
            raise SuspendedError(_MISSING.format(source=table.source.source))
        if gone:
            cursor.execute(_DELETE.format(table=table.identifier, same=same))
        cursor.execute(_upsert(table))
        if keeping:
            cursor.execute(_UPDATE.format(table=table.identifier, sets=_sets(table), same=same))
            if cursor.rowcount != keeping:
                raise SuspendedError(_MISSING.format(source=table.source.source))


def _upsert(table: PublicTable) -> sql.Composed:
    names = list(table.values)
    excluded = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in names if n not in table.key]
    return _UPSERT.format(
        table=table.identifier,
        columns=sql.SQL(", ").join(map(sql.Identifier, names)),
        values=sql.SQL(", ").join(table.values.values()),
        key=sql.SQL(", ").join(map(sql.Identifier, table.key)),
        sets=sql.SQL(", ").join(excluded),
    )


def _sets(table: PublicTable) -> sql.Composable:
    """Return SQL that sets all columns but the omitted ones."""
    sets = []
    for name, value in table.values.items():
        if name in table.types:
            keep = sql.SQL("CASE WHEN f.row -> {} = ANY ({}) THEN p.{} ELSE {} END")
            value = keep.format(sql.Literal(name), placeholders.ALL, sql.Identifier(name), value)  # noqa: PLW2901
        sets.append(sql.SQL("{} = {}").format(sql.Identifier(name), value))
    return sql.SQL(", ").join(sets)


def _rekey(conn: connection, table: PublicTable, pairs: Sequence[Pair]) -> None:
    statement = _REKEY.format(
        table=table.identifier,
        sets=_sets(table),
        olds=sql.Literal([pair.old for pair in pairs]),
        news=sql.Literal([pair.new for pair in pairs]),
        same=table.same_key("p", sql.SQL("f.old_key")),
    )
    with conn.cursor() as cursor:
        cursor.execute(statement)
        if cursor.rowcount != len(pairs):
            raise SuspendedError(_MISSING.format(source=table.source.source))


def _one(conn: connection, statement: str) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        (value,) = cursor.fetchone() or (None,)
    return value
