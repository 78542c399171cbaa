"""Which tables must be read again: their rows changed, and no event says so."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from services.elt.agent.seen import RowsStamp, Table


def rereads(
    before: Mapping[str, RowsStamp], now: Iterable[Table], has_rows: Callable[[int], bool]
) -> dict[str, str]:
    """Return by full name why tables must be read again.

    `has_rows` says so of a table's oid: of one that is new and empty the stream has everything.
    """
    found = {table.full_name: _why(before.get(table.full_name), table, has_rows) for table in now}
    return {name: why for name, why in found.items() if why}


def _why(before: RowsStamp | None, table: Table, has_rows: Callable[[int], bool]) -> str:
    now = table.rows_stamp
    if before is None or before.oid != now.oid:
        # Renamed, moved into the schema, or filled within the moment in which it was made.
        return "it is new here and has rows" if has_rows(now.oid) else ""
    return "; ".join((*_of_columns(before, now), *_of_partitions(before, now, has_rows)))


def _of_columns(before: RowsStamp, now: RowsStamp) -> Iterator[str]:
    for number, (name, type_oid, modifier, has_default) in now.columns.items():
        old = before.columns.get(number)
        if old is None:
            if has_default:
                yield f"the new column {name} has a default"
        elif old[0] != name:
            yield f"the column {old[0]} is named {name} now"
        elif (old[1], old[2]) != (type_oid, modifier):
            yield f"the column {name} has another type"


def _of_partitions(before: RowsStamp, now: RowsStamp, has_rows: Callable[[int], bool]) -> Iterator[str]:
    if set(before.partitions) - set(now.partitions):
        yield "a partition was detached or dropped"
    elif any(has_rows(oid) for oid in set(now.partitions) - set(before.partitions)):
        yield "a partition with rows was attached"
