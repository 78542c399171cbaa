"""Events as files: their payloads page by page, and the edited ones that came back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from psycopg2 import Binary, sql
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.admin.segments.folder import Segments
from services.admin.store.bytes_sql import MAX_EDITED, Loaded, load
from services.admin.store.read_sql import FILTERS, Only
from services.admin.store.sets_sql import rows
from services.admin.store.staging_sql import Load
from services.ops.fixes.edited_lines import (
    MAX_BYTES,
    Edit,
    Named,
    edit_of,
    line_of,
    require_same,
)
from services.ops.fixes.payloads import edited
from shared.errors import BAD_EDITS, OnrampError, UserError

#: Maximum events of one file.
MAX_EVENTS: Final = 100_000
#: Maximum bytes of one page or batch in memory, at least one event.
_PAGE_BYTES: Final = 16 << 20
_PAGE: Final = 500
_IDS: Final = "SELECT id FROM onramp_admin.events WHERE {} ORDER BY id LIMIT %(most)s"
_NAMED: Final = """
    SELECT id, concat_ws('/', topic, partition, "offset", destination), event_id, event_name, size
    FROM onramp_admin.events WHERE id = ANY (%(ids)s) AND {} ORDER BY id
"""
_UPLOAD: Final = "INSERT INTO onramp_admin.uploads (actor) VALUES (%s) RETURNING id"
_COUNT: Final = "UPDATE onramp_admin.uploads SET events = %s WHERE id = %s"
_ADD: Final = """
    INSERT INTO onramp_admin.edits (upload, event, payload) VALUES %s
    ON CONFLICT DO NOTHING RETURNING event
"""
#: NULL for events beyond the memory limit.
_EDITS: Final = """
    SELECT event, CASE WHEN before < %s THEN payload END FROM (
        SELECT event, payload,
            sum(octet_length(payload)) OVER (ORDER BY event) - octet_length(payload) AS before
        FROM onramp_admin.edits WHERE upload = %s AND event = ANY (%s)
    ) e
"""


def ids(conn: connection, filters: Mapping[str, Any]) -> list[int]:
    """Return the first `MAX_EVENTS` + 1 events that match, in their order."""
    where = sql.SQL(" AND ").join(sql.SQL(FILTERS[n].replace("%s", f"%({n})s")) for n in filters)
    found = rows(conn, sql.SQL(_IDS).format(where), {**filters, "most": MAX_EVENTS + 1})
    return [number for (number,) in found]


def pages(conn: connection, events: Sequence[int]) -> Iterator[list[int]]:
    """Split events into pages within the memory limit."""
    for start in range(0, len(events), _PAGE):
        page: list[int] = []
        size = 0
        for named, length in _visible(conn, events[start : start + _PAGE], None).values():
            if page and size + length > _PAGE_BYTES:
                yield page
                page, size = [], 0
            page.append(named.event)
            size += length
        if page:
            yield page


def lines(conn: connection, segments: Segments | None, page: Sequence[int]) -> list[bytes]:
    """Return the lines of a page of events."""
    loaded = load(conn, segments, page)
    return [
        line_of(named, loaded.values.get(named.event), loaded.lost.get(named.event))
        for named, _ in _visible(conn, page, None).values()
    ]


def keep(
    conn: connection, segments: Segments | None, file: BinaryIO, actor: str, only: Only
) -> tuple[int, int]:
    """Store the edits of a file; return the upload's id, and the number of edits.

    Raises `UserError` BAD_EDITS with the line's number; then nothing is stored.
    """
    with conn.cursor() as cur:
        cur.execute(_UPLOAD, (actor,))
        ((upload,),) = cur.fetchall()
        count = 0
        for batch in _batches(file):
            _add(conn, segments, upload, batch, only)
            count += len(batch)
            if count > MAX_EVENTS:
                raise UserError(BAD_EDITS, f"the file has more than {MAX_EVENTS:,} lines: send it in parts")
        if not count:
            raise UserError(BAD_EDITS, "line 1: there is none")
        cur.execute(_COUNT, (count, upload))
    return upload, count


def with_edits(conn: connection, upload: int, loader: Load, events: list[int]) -> Loaded:
    """Return edited events; an event that cannot be edited is an error of this job."""
    loaded = loader(events)
    with conn.cursor() as cur:
        cur.execute(_EDITS, (MAX_EDITED, upload, list(loaded.values)))
        payloads = dict(cur.fetchall())
    loaded.later |= {number for number, payload in payloads.items() if payload is None}
    return loaded.edit(lambda number, value: edited(value, bytes(payloads[number])))


def _batches(file: BinaryIO) -> Iterator[dict[int, Edit]]:
    """Yield edits by line number; empty lines are skipped."""
    batch: dict[int, Edit] = {}
    size = number = 0
    while line := file.readline(MAX_BYTES + 1):
        number += 1
        if len(line) > MAX_BYTES:
            raise UserError(BAD_EDITS, f"line {number}: the line has more than {MAX_BYTES:,} bytes")
        if not line.strip():
            continue
        with _Line(number):
            batch[number] = edit_of(line)
        size += len(line)
        if size > _PAGE_BYTES or len(batch) == _PAGE:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _add(
    conn: connection, segments: Segments | None, upload: int, batch: Mapping[int, Edit], only: Only
) -> None:
    """Store the edits of a batch of lines.  Raises `UserError` for an unknown event or invalid edit."""
    wanted = {edit.event for edit in batch.values()}
    kept = _visible(conn, wanted, only)
    for page in pages(conn, sorted(kept)):
        loaded, of_page = load(conn, segments, page), set(page)
        for number, edit in batch.items():
            if edit.event in of_page:
                with _Line(number):
                    require_same(edit, kept[edit.event][0])
                    _require_editable(edit, loaded)
    for number, edit in batch.items():
        if edit.event not in kept:
            raise UserError(BAD_EDITS, f"line {number}: there is no event of this number")
    first = {edit.event: number for number, edit in reversed(list(batch.items()))}
    values = [
        (upload, edit.event, Binary(edit.payload)) for n, edit in batch.items() if first[edit.event] == n
    ]
    with conn.cursor() as cur:
        added = {event for (event,) in execute_values(cur, _ADD, values, page_size=len(values), fetch=True)}
    for number, edit in batch.items():
        if edit.event not in added or first[edit.event] != number:
            raise UserError(BAD_EDITS, f"line {number}: event {edit.event} was on a line before it")


def _require_editable(edit: Edit, loaded: Loaded) -> None:
    if edit.event in loaded.lost:
        raise UserError(BAD_EDITS, loaded.lost[edit.event].detail)
    edited(loaded.values.get(edit.event, b""), edit.payload)


def _visible(conn: connection, events: Iterable[int], only: Only) -> dict[int, tuple[Named, int]]:
    """Return the visible ones of `events`, in their order: their names and sizes in bytes."""
    seen = sql.SQL("true" if only is None else FILTERS["only"].replace("%s", "%(only)s"))
    found = rows(conn, sql.SQL(_NAMED).format(seen), {"ids": list(events), "only": only})
    return {row[0]: (Named(*row[:4]), row[4]) for row in found}


class _Line:
    """Adds the line number to an error."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, OnrampError):
            raise UserError(BAD_EDITS, f"line {self._number}: {error.detail}") from None
