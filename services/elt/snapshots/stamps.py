"""What of a table changes when its rows change and no event says so: by that it is known to be read again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsStamp:
    """What of a table changes when its rows change and nobody is told.

    Columns by number have the name, the type's oid, its modifier, and whether rows get a default.
    """

    oid: int
    columns: Mapping[str, Sequence[Any]]
    #: By number: those that are generated, which are not captured.
    generated: Sequence[int] = ()
    #: Names of columns that were dropped.
    gone: Sequence[str] = ()
    #: Its file, and who has written the catalogue's rows of its columns: ALTER TABLE may rewrite the table.
    file: int = 0
    altered: str = ""
    #: By oid: the values of the enumerations that its columns have, and the attributes of composites.
    labels: Mapping[str, str] = field(default_factory=dict)
    partitions: Sequence[int] = ()
    #: By oid: the file of each partition, another one after a TRUNCATE, and who has attached it.
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the stamp that is kept as `document`, as this release or one before keeps it."""
        return cls(
            oid=document["oid"],
            columns=document["columns"] or {},
            generated=tuple(document.get("generated") or ()),
            gone=tuple(document.get("gone") or ()),
            file=document.get("file") or 0,
            altered=document.get("altered") or "",
            labels=document.get("labels") or {},
            partitions=tuple(document.get("partitions") or ()),
            files=document.get("files") or {},
        )

    def after(self, before: "RowsStamp | None") -> "RowsStamp":
        """Return it with what is known of the columns that the table had at the look before."""
        if before is None or before.oid != self.oid:
            return self
        names, had = ({column[0] for column in of.columns.values()} for of in (self, before))
        return replace(self, gone=tuple(sorted({*before.gone, *had} - names)))

    def document(self) -> dict[str, Any]:
        """Return it to be kept."""
        return asdict(self)


def why_again(
    before: RowsStamp | None, now: RowsStamp, has_rows: Callable[[int], bool], *, had_rows: bool = False
) -> str:
    """Return why a table must be read again, or nothing.

    `has_rows` says so of a table's oid: of one that is new and empty the stream has everything.
    `had_rows`: whether changes of a table of this name were captured before.
    """
    if before is None or before.oid != now.oid:
        # Renamed, moved into the schema, filled within the moment in which it was made, or excluded before.
        if had_rows:
            return "it is new here and may have other rows than the one before"
        return "it is new here and has rows" if has_rows(now.oid) else ""
    found = _of_columns(before, now), _of_types(before, now), _of_partitions(before, now, has_rows)
    return "; ".join(chain(*found))


def _of_columns(before: RowsStamp, now: RowsStamp) -> Iterator[str]:
    had = {column[0] for column in before.columns.values()}
    for number, (name, type_oid, modifier, has_default) in now.columns.items():
        old = before.columns.get(number)
        if old is None:
            if int(number) in before.generated:
                yield f"the column {name} is not generated any more"
            elif has_default:
                yield f"the new column {name} has a default"
            elif name in before.gone or name in had:
                yield f"the column {name} is another than the one that it had"
        elif old[0] != name:
            yield f"the column {old[0]} is named {name} now"
        elif (old[1], old[2]) != (type_oid, modifier):
            yield f"the column {name} has another type"
    # VACUUM FULL and TRUNCATE have no part in its columns.
    if before.file and before.file != now.file and before.altered != now.altered:
        yield "ALTER TABLE has rewritten it"


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
