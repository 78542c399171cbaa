"""The fingerprint of a table: catalogue values that differ after rows changed without an event."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsStamp:
    """Catalogue values of a table that differ after its rows changed without an event.

    Columns by number have the name, the type's oid, its modifier, and whether rows get a default.
    """

    oid: int
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    #: Generated columns by number; they are not captured.
    generated: Sequence[int] = ()
    #: Names of columns that were dropped between two polls, and the numbers of all columns ever dropped.
    gone: Sequence[str] = ()
    dropped: Sequence[int] = ()
    #: Its file, its TOAST table (0: none), and whether the file of that, or of an index, was created right
    #: behind its own: these distinguish a rewrite from TRUNCATE.
    file: int = 0
    toast: int = 0
    is_truncated: bool = False
    #: The numbers of the columns that identify a row; empty without a key.
    key: str | None = None
    #: The versions of its publication and of its schema's entry in that publication.
    published: str | None = None
    #: The values of its enumeration types and the attributes of its composite types, by oid.
    labels: Mapping[str, str] = field(default_factory=dict)
    partitions: Sequence[int] = ()
    #: The file of each partition, which TRUNCATE replaces, and the transaction that attached it, by oid.
    files: Mapping[str, str] = field(default_factory=dict)
    #: Names of columns for which rows of partitions have a default.
    filled: Sequence[str] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the fingerprint that is stored as `document`, without unknown fields of later releases."""
        stored = ((each.name, document.get(each.name)) for each in fields(cls))
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in stored
            if value is not None
        }
        return cls(**given)

    def after(self, before: "RowsStamp | None") -> "RowsStamp":
        """Return the fingerprint with the dropped columns that are known from the last poll."""
        if before is None or before.oid != self.oid:
            return self
        names, had = ({column[0] for column in of.columns.values()} for of in (self, before))
        return replace(self, gone=tuple(sorted({*before.gone, *had} - names)))

    def document(self) -> dict[str, Any]:
        """Return the JSON document to store."""
        return asdict(self)


def why_again(
    before: RowsStamp | None, now: RowsStamp, has_rows: Callable[[int], bool], *, had_rows: bool = False
) -> str:
    """Return why a table must be re-snapshotted, or an empty text.

    `has_rows`: whether the table of an oid has rows; for a new and empty table the stream is complete.
    `had_rows`: whether changes of a table of this name were captured before.
    """
    if before is None or before.oid != now.oid:
        # Renamed, moved into the schema, filled before its creation was captured, or excluded before.
        if had_rows:
            return "it is new here and may have other rows than the one before"
        return "it is new here and has rows" if has_rows(now.oid) else ""
    found = (
        _of_columns(before, now),
        _of_files(before, now),
        _of_types(before, now),
        _of_partitions(before, now, has_rows),
        _of_identity(before, now),
    )
    return "; ".join(chain(*found))


def _of_columns(before: RowsStamp, now: RowsStamp) -> Iterator[str]:
    had = {column[0] for column in before.columns.values()}
    for number, (name, type_oid, modifier, has_default) in now.columns.items():
        old = before.columns.get(number)
        if old is None:
            if int(number) in before.generated:
                yield f"the column {name} is not generated any more"
            elif has_default or name in now.filled:
                yield f"the new column {name} has a default"
            elif name in before.gone or name in had:
                yield f"the column {name} was replaced by a new one of the same name"
        elif old[0] != name:
            yield f"the column {old[0]} is named {name} now"
        elif (old[1], old[2]) != (type_oid, modifier):
            yield f"the column {name} has another type"
    if set(now.dropped) - {*before.dropped, *before.generated, *map(int, before.columns)}:
        yield "a column of it came and went"


def _of_files(before: RowsStamp, now: RowsStamp) -> Iterator[str]:
    if _is_rewritten(before, now):
        yield "ALTER TABLE has rewritten it"
    elif before.file != now.file and not now.is_truncated and set(now.columns) - set(before.columns):
        # VACUUM FULL writes a default into the rows, and the catalogue no longer has a default dropped
        # before.
        yield "a new column of it may have had a default"


def _is_rewritten(before: RowsStamp, now: RowsStamp) -> bool:
    """Return whether ALTER TABLE may have changed rows (USING with the same type, SET UNLOGGED and back).

    TRUNCATE is in the log.  It keeps the TOAST table, as VACUUM FULL does, and creates the files of a
    table and of its first index in direct succession. ALTER TABLE creates another TOAST table, and a type
    between the two.
    """
    if not before.file or before.file == now.file:
        return False
    if before.toast and now.toast:
        return before.toast != now.toast
    return bool(before.toast or now.toast) or not now.is_truncated


def _of_identity(before: RowsStamp, now: RowsStamp) -> Iterator[str]:
    if before.published is not None and before.published != now.published:
        yield "its publication was changed"
    if before.key is not None and before.key != now.key:
        yield "its key has changed"  # a delete by another key would find no row


def _of_types(before: RowsStamp, now: RowsStamp) -> Iterator[str]:
    if any(now.labels.get(oid, label) != label for oid, label in before.labels.items()):
        yield "a value of an enumeration has another name, or a composite type other attributes"


def _of_partitions(before: RowsStamp, now: RowsStamp, has_rows: Callable[[int], bool]) -> Iterator[str]:
    if set(before.partitions) - set(now.partitions):
        yield "a partition was detached or dropped"
    elif any(has_rows(oid) for oid in set(now.partitions) - set(before.partitions)):
        yield "a partition with rows was attached"
    if any(now.files.get(oid, file) != file for oid, file in before.files.items()):
        yield "a partition was truncated, rewritten or attached again"
