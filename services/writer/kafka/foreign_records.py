"""Records on Onramp's own topics that are not Onramp's: any client may write there.

They are passed over, each said once; what is ours and cannot be read would be missed by
whoever counts it: a marker counts its events, and a gap halts.
"""

import logging
from typing import Final

log = logging.getLogger(__name__)

#: Whoever writes more of them than this has been told.
_MOST_SAID: Final = 20


class ForeignRecords:
    """Those that were seen."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, int]] = set()

    def pass_over(self, topic: str, partition: int, offset: int) -> None:
        """Say that the record at this place is none of ours, once."""
        place = (topic, partition, offset)
        if place in self.seen or len(self.seen) >= _MOST_SAID:
            return
        self.seen.add(place)
        log.warning(
            "a record on a topic of Onramp's own is not Onramp's and is passed over: who else writes there?",
            extra={"topic": topic, "partition": partition, "offset": offset},
        )
