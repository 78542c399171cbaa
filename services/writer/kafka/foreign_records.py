"""Logs foreign records on Onramp's own topics, to which any client may write.

Foreign records are skipped, and each is logged once.  One of Onramp's records that cannot be parsed is not
lost silently: a marker counts its events, and a gap halts the partition.
"""

import logging
from typing import Final

log = logging.getLogger(__name__)

#: Maximum records that are logged.
_MAX_LOGGED: Final = 20


class ForeignRecords:
    """The foreign records that were logged."""

    def __init__(self) -> None:
        self.logged: set[tuple[str, int, int]] = set()

    def pass_over(self, topic: str, partition: int, offset: int) -> None:
        """Log that this record is not Onramp's, once."""
        record = (topic, partition, offset)
        if record in self.logged or len(self.logged) >= _MAX_LOGGED:
            return
        self.logged.add(record)
        log.warning(
            "skipped a foreign record on one of Onramp's own topics: find the client that writes there",
            extra={"topic": topic, "partition": partition, "offset": offset},
        )
