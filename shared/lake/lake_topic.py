"""The compacted topic `onramp.lake`: positions of tables, for the lake service, the audit and operators.

The service's plans and routes are on the same topic; their format is the service's own.
"""

from typing import Final, NamedTuple

import msgspec

from shared.lake.transactions import TablePosition

_POSITION: Final = "position"
_START: Final = "start"


class PositionKey(NamedTuple):
    """A table and a partition of one topic generation."""

    table: str
    topic: str
    topic_id: str
    partition: int


_decode_start: Final = msgspec.json.Decoder(int).decode
_decode: Final = msgspec.json.Decoder(TablePosition).decode


def position_entry(key: PositionKey, position: TablePosition) -> tuple[bytes, bytes]:
    """Return the record of a table's position: key and value."""
    return "/".join((_POSITION, *map(str, key))).encode(), msgspec.json.encode(position)


def parse_position(key: bytes, value: bytes) -> tuple[PositionKey, TablePosition] | None:
    """Return a record's position; None for another record.  Raise one of `UNREADABLE`."""
    kind, _, rest = key.decode().partition("/")
    if kind != _POSITION:
        return None
    table, topic, topic_id, partition = rest.split("/")
    return PositionKey(table, topic, topic_id, int(partition)), _decode(value)


def parse_start(key: bytes, value: bytes | None) -> tuple[PositionKey, int | None] | None:
    """Return the first offset that a table takes of a partition, as a record states it.

    The offset is None if the record removes it.  Return None for another record.  Raise one of `UNREADABLE`.
    """
    kind, _, rest = key.decode().partition("/")
    if kind != _START:
        return None
    table, topic, topic_id, partition = rest.split("/")
    start = None if value is None else _decode_start(value)
    return PositionKey(table, topic, topic_id, int(partition)), start
