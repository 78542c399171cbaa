"""The outcomes of replays of events that transforms have parked.

An output of a replayed event names the event's own receipt, and is counted in the totals of the topic of
replays.  These outcomes say which outputs are of replays.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from shared import wire
from shared.transform_replay import EMITTED, PARKED, ReplayOutcome

#: The partition whose totals have the replays.
REPLAYS: Final = Source(wire.TRANSFORM_REPLAYS, 0)


class Place(NamedTuple):
    """A source event of a transform."""

    transform: str
    source: Source
    offset: int


@dataclass(slots=True)
class Replays:
    """The outcomes of replays, by the positions that the audit has read."""

    #: By event that was emitted: the offset of its replay; None if it is behind the position.
    emitted: dict[Place, int | None] = field(default_factory=dict)
    #: By transform: the replays below its position that have failed again.
    parked: Counter[str] = field(default_factory=Counter)


async def read_replays(logs: KafkaLogs, positions: Mapping[tuple[str, Source], int]) -> Replays:
    """Return the outcomes; the caller has read the ends of outputs before.  Raises `InfrastructureError`."""
    replays = Replays()
    async for record in logs.whole(wire.TRANSFORM_REPLAYED):
        outcome = ReplayOutcome.parse(record.value)
        if outcome is None or outcome.replay.is_rehearsal:
            continue
        is_counted = outcome.at < positions.get((outcome.transform, REPLAYS), 0)
        if outcome.outcome == EMITTED:
            place = Place(outcome.transform, Source(*outcome.replay.source), outcome.replay.offset)
            replays.emitted[place] = outcome.at if is_counted else None
        elif outcome.outcome == PARKED and is_counted:
            replays.parked[outcome.transform] += 1
    return replays
