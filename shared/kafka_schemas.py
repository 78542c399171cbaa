"""Schemas of requests that aiokafka lacks: fields, and a list of partitions for each topic.

Requests and responses about partitions have this form in Kafka's protocol.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import starmap
from struct import Struct
from typing import Any, Final

from aiokafka.protocol.types import (
    AbstractType,
    Array,
    CompactArray,
    CompactString,
    Schema,
    String,
    TaggedFields,
)

Field = tuple[str, AbstractType]

#: Empty tagged fields, which end each part of a flexible version's message.
TAGS: Final = ("tags", TaggedFields)
_COUNT: Final = Struct(">i")


class _Rows:
    """The part of a type that aiokafka uses for its log."""

    def repr(self, rows: Sequence[Any]) -> str:
        """Return a short text for aiokafka's log."""
        return f"{len(rows)} rows"


class PackedRows(_Rows):
    """An array of rows of fixed size, which is decoded in one step.

    aiokafka decodes each field by itself: for thousands of partitions that takes ten times as long.
    """

    def __init__(self, layout: str) -> None:
        """`layout`: the fields of one row, as `struct` writes them."""
        self._row = Struct(layout)

    def encode(self, rows: Sequence[Any]) -> bytes:
        """Return the bytes of an array."""
        return _COUNT.pack(len(rows)) + b"".join(starmap(self._row.pack, rows))

    def decode(self, data: BytesIO) -> list[tuple[Any, ...]]:
        """Return the rows of an array.  Raise `ValueError` if some are missing."""
        (count,) = _COUNT.unpack(data.read(_COUNT.size))
        size = max(count, 0) * self._row.size
        packed = data.read(size)
        if len(packed) != size:
            raise ValueError("the array ends early")
        return list(self._row.iter_unpack(packed))


class VariableRows(_Rows):
    """An array of rows of different sizes, which is decoded row by row."""

    def __init__(self, read_row: Callable[[memoryview, int], tuple[tuple[Any, ...], int]]) -> None:
        """`read_row` returns the row at an offset of the buffer, and the offset behind it."""
        self._read_row = read_row

    def decode(self, data: BytesIO) -> list[tuple[Any, ...]]:
        """Return the rows of an array.  Raise `struct.error` if some are missing."""
        buffer, at = data.getbuffer(), data.tell()
        (count,) = _COUNT.unpack_from(buffer, at)
        at += _COUNT.size
        rows = []
        for _ in range(count):
            row, at = self._read_row(buffer, at)
            rows.append(row)
        data.seek(at)
        return rows


def by_partition(*fields: Field, partition: tuple[Field, ...]) -> Schema:
    """Return the schema of `fields`, followed by `partition` for each partition of each topic."""
    topic = (("topic", String("utf-8")), ("partitions", Array(*partition)))
    return Schema(*fields, ("topics", Array(*topic)))


def flexible_by_partition(*fields: Field, partition: tuple[Field, ...]) -> Schema:
    """Return the same in the compact form with tags of flexible versions."""
    topic = (("topic", CompactString("utf-8")), ("partitions", CompactArray(*partition, TAGS)), TAGS)
    return Schema(*fields, ("topics", CompactArray(*topic)), TAGS)
