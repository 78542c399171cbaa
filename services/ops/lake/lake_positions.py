"""The content of `onramp.lake` for the audit and statements: positions of tables, and their first offsets."""

from shared.lake.lake_topic import PositionKey, parse_position, parse_start
from shared.lake.transactions import TablePosition
from shared.parse_errors import UNREADABLE


class LakePositions:
    """The last records of the topic by key."""

    def __init__(self) -> None:
        self.positions: dict[PositionKey, TablePosition] = {}
        #: The first offset that a table takes; none for a destination that was removed.
        self.starts: dict[PositionKey, int] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Add a record in the order of the topic; foreign records are ignored, as by the lake service."""
        try:
            if (start := parse_start(key or b"", value)) is not None:
                of, offset = start
                self.starts.pop(of, None)
                if offset is not None:
                    self.starts[of] = offset
            elif value is not None and (position := parse_position(key or b"", value)):
                self.positions[position[0]] = position[1]
        except UNREADABLE:
            return
