"""What a writer looks after between two batches, under any load.

Its group offsets, what outboxes still have, ledgers that somebody restored, and the settings of
Onramp's own topics.
"""

import logging
import time
from typing import Final

from services.writer.driver.parts import Parts, check_fenced
from services.writer.model.next_offsets import Committed
from shared.errors import OWN_TOPIC_UNSAFE

log = logging.getLogger(__name__)

#: Groups without members expire after `offsets.retention.minutes`, seven days by default.
_RECOMMIT_SECONDS: Final = 24 * 3600.0


class Reconciler:
    """Called between two batches, when every stand is settled; does its work every `seconds`."""

    def __init__(self, parts: Parts, seconds: float) -> None:
        self._parts = parts
        self._seconds = seconds
        self._due = time.monotonic() + seconds
        self._committed = time.monotonic()

    async def tick(self) -> None:
        """Put back what a zombie rewound, keep the group alive, relay, compare ledgers and topics' settings.

        Raises `InfrastructureError` when a newer writer is there.
        """
        now = time.monotonic()
        if now < self._due:
            return
        await check_fenced(self._parts)
        await self._see_own_topics()
        await self._recommit(now)
        await self._parts.databases.relay(self._parts.databases.landing())
        await self._parts.databases.compare()
        self._due = time.monotonic() + self._seconds

    async def _see_own_topics(self) -> None:
        """Say what is wrong and land on: to stop would save nothing that expires, and delay the rest."""
        wrong = await self._parts.cluster.own_topics.look()
        if wrong is None:
            return
        self._parts.status.warning = "; ".join(wrong)
        for each in wrong:
            log.error(
                "a topic of Onramp's own loses what it keeps",
                extra={"code": OWN_TOPIC_UNSAFE.code, "reason": each},
            )

    async def _recommit(self, now: float) -> None:
        at = {p: s.next_offset for p, s in self._parts.databases.positions.items()}
        group = await self._parts.cluster.group_offsets_now()
        if group is None:
            return
        incarnations = self._parts.cluster.incarnations
        rewound = {
            p: o for p, o in at.items() if p in group and group[p] != Committed(o, incarnations.get(p, ""))
        }
        daily = at if now - self._committed > _RECOMMIT_SECONDS else {}
        if put_back := rewound | daily:
            await self._parts.cluster.commit(put_back)
            self._committed = now
