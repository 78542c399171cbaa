"""One segment: a Parquet file of events' bytes (zstd), sorted by group and id.

Its row groups are about a megabyte, and their statistics hold the range of groups and ids: a reader of some
events reads only the row groups that contain them.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final, NamedTuple, Self

from services.admin.segments.folder import Segments
from shared.errors import SEGMENT_DAMAGED, SEGMENT_MISSING, OnrampError, UserError

#: Bytes of a row group, before compression.
_ROW_GROUP_BYTES: Final = 1_000_000
_ROW_GROUP_ROWS: Final = 8_000
_GROUP, _EVENT, _VALUE = "group", "event", "value"


class Row(NamedTuple):
    """The bytes of one event."""

    group: int
    event: int
    value: bytes


class Written(NamedTuple):
    """A segment's number of events, and a digest of its content."""

    events: int
    digest: bytes


@dataclass(slots=True)
class Read:
    """The result of a read: bytes by event, and the errors of the others."""

    values: dict[int, bytes] = field(default_factory=dict)
    lost: dict[int, OnrampError] = field(default_factory=dict)
    row_groups: int = 0


def write(segments: Segments, name: str, rows: Iterable[Row]) -> Written:
    """Write a segment of the sorted `rows`, and verify it by reading it.

    Raises `InfrastructureError`; `UserError` if it reads differently and must not be used.
    """
    digest = _Digest()
    with segments.writing(name) as sink, _writer(sink) as writer:
        for rows_of in _row_groups(rows):
            digest.add(rows_of)
            writer.write_table(_table(rows_of), row_group_size=len(rows_of))
    again = _Digest()
    for rows_of in _batches(segments, name):
        again.add(rows_of)
    if again.written() != digest.written():
        raise _damaged(name)
    return digest.written()


def read_all(segments: Segments, name: str) -> Iterator[Row]:
    """Yield all rows.  Raises `InfrastructureError`; `UserError` if it is missing or damaged."""
    for rows in _batches(segments, name):
        yield from rows


def read(segments: Segments, name: str, wanted: Mapping[int, int]) -> Read:
    """Read the bytes of the `wanted` events (group by id).  Raises `InfrastructureError`."""
    found = Read()
    try:
        with _opened(segments, name) as file:
            looked_for = _Wanted.of(wanted)
            for at in range(file.num_row_groups):
                if ids := looked_for.inside(file.metadata.row_group(at)):
                    _take(found, name, file, at, ids)
    except UserError as e:
        found.lost |= {event: e for event in wanted if event not in found.values}
    lost = wanted.keys() - found.values.keys() - found.lost.keys()
    found.lost |= {
        event: UserError(SEGMENT_DAMAGED, f"segment {name} does not contain the event") for event in lost
    }
    return found


def _take(found: Read, name: str, file: Any, at: int, ids: list[int]) -> None:
    """Read one row group; if it is damaged, only its own events are lost."""
    import pyarrow as pa  # noqa: PLC0415 - see folder.py

    found.row_groups += 1
    try:
        table = file.read_row_group(at, columns=[_EVENT, _VALUE])
        all_of_it = zip(table[_EVENT].to_pylist(), table[_VALUE].to_pylist(), strict=True)
    except FileNotFoundError:
        raise _missing(name) from None
    except (OSError, pa.ArrowException):
        # A group can span several row groups, so an id may be in another one.
        found.lost |= {event: _damaged(name) for event in ids if event not in found.values}
        return
    wanted = set(ids)
    # Without pyarrow's filter, which loads its compute module, some megabytes.
    rows = {event: value for event, value in all_of_it if event in wanted}
    found.values |= rows
    for event in rows:
        found.lost.pop(event, None)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The requested events as columns: thousands are compared with each row group."""

    groups: Any
    events: Any

    @classmethod
    def of(cls, wanted: Mapping[int, int]) -> Self:
        import numpy as np  # noqa: PLC0415 - see folder.py

        count = len(wanted)
        return cls(np.fromiter(wanted.values(), np.int64, count), np.fromiter(wanted, np.int64, count))

    def inside(self, row_group: Any) -> list[int]:
        """Return those that may be in the row group."""
        groups, events = (row_group.column(n).statistics for n in (0, 1))
        is_inside = (groups.min <= self.groups) & (self.groups <= groups.max)
        is_inside &= (events.min <= self.events) & (self.events <= events.max)
        found: list[int] = self.events[is_inside].tolist()
        return found


def _batches(segments: Segments, name: str) -> Iterator[list[Row]]:
    import pyarrow as pa  # noqa: PLC0415 - see folder.py

    with _opened(segments, name) as file:
        for at in range(file.num_row_groups):
            try:
                columns = file.read_row_group(at).to_pydict()
            except FileNotFoundError:
                raise _missing(name) from None
            except (OSError, pa.ArrowException):
                raise _damaged(name) from None
            yield [Row(*row) for row in zip(*(columns[n] for n in (_GROUP, _EVENT, _VALUE)), strict=True)]


@contextmanager
def _opened(segments: Segments, name: str) -> Iterator[Any]:
    """Open a segment.  Raises `UserError` if it is missing, or its footer is damaged."""
    import pyarrow as pa  # noqa: PLC0415 - see folder.py
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    with ExitStack() as stack:
        try:
            handle = stack.enter_context(segments.reading(name))
            file = ParquetFile(handle, page_checksum_verification=True)
        except FileNotFoundError:
            raise _missing(name) from None
        except (OSError, pa.ArrowException):
            raise _damaged(name) from None
        if not _is_segment(file):
            raise _damaged(name)
        yield file


def _is_segment(file: Any) -> bool:
    """Return whether a Parquet file has a segment's columns and statistics; its name proves nothing."""
    wanted = [(field.name, field.type) for field in _schema()]
    groups = (file.metadata.row_group(at) for at in range(file.num_row_groups))
    return [(field.name, field.type) for field in file.schema_arrow] == wanted and all(
        (statistics := group.column(n).statistics) is not None and statistics.has_min_max
        for group in groups
        for n in (0, 1)
    )


def _missing(name: str) -> UserError:
    return UserError(SEGMENT_MISSING, f"segment {name} does not exist")


def _damaged(name: str) -> UserError:
    return UserError(SEGMENT_DAMAGED, f"segment {name} cannot be read as it was written")


def _writer(sink: Any) -> Any:
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - see folder.py

    return ParquetWriter(
        sink,
        _schema(),
        compression="zstd",
        use_dictionary=False,
        write_statistics=[_GROUP, _EVENT],
        write_page_checksum=True,
        store_schema=False,
    )


def _schema() -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see folder.py

    columns = ((_GROUP, pa.int64()), (_EVENT, pa.int64()), (_VALUE, pa.binary()))
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


def _table(rows: list[Row]) -> Any:
    """Return rows as a table built of buffers: `pa.array` loads pandas, which is 46 MiB."""
    import pyarrow as pa  # noqa: PLC0415 - see folder.py

    def numbers(kind: Any, code: str, values: Iterable[int]) -> Any:
        return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(array(code, values))])

    ends = pa.py_buffer(array("i", accumulate((len(row.value) for row in rows), initial=0)))
    values = pa.py_buffer(b"".join(row.value for row in rows))
    columns = [
        numbers(pa.int64(), "q", (row.group for row in rows)),
        numbers(pa.int64(), "q", (row.event for row in rows)),
        pa.Array.from_buffers(pa.binary(), len(rows), [None, ends, values]),
    ]
    return pa.Table.from_arrays(columns, schema=_schema())


def _row_groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    taken: list[Row] = []
    size = 0
    for row in rows:
        taken.append(row)
        size += len(row.value)
        if size >= _ROW_GROUP_BYTES or len(taken) >= _ROW_GROUP_ROWS:
            yield taken
            taken, size = [], 0
    if taken:
        yield taken


class _Digest:
    """A digest of rows in their order."""

    def __init__(self) -> None:
        self._events = 0
        self._hash = sha256()

    def add(self, rows: list[Row]) -> None:
        self._events += len(rows)
        for row in rows:
            self._hash.update(b"%d,%d,%d," % (row.group, row.event, len(row.value)))
            self._hash.update(row.value)

    def written(self) -> Written:
        return Written(self._events, self._hash.digest())
