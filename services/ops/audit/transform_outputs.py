"""Counts the outputs of transforms on their topics: the audit's own reading of ids and headers.

It deliberately shares no code with the lane runs that wrote them.
"""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from services.ops.audit.transform_replays import REPLAYS, Place
from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from shared import wire
from shared.parse_errors import UNREADABLE


class Output(NamedTuple):
    """An output by its headers and its id, which has the number `k` of the output of its event."""

    transform: str
    source: Source
    offset: int
    id: str


class Repeat(NamedTuple):
    """An output that is on its topic a second time."""

    output: Output
    place: str


@dataclass(slots=True)
class OutputTally:
    """The outputs below the positions of their transforms."""

    #: By transform and source partition: different outputs, and the source offsets that have any.
    outputs: Counter[tuple[str, Source]] = field(default_factory=Counter)
    emitted: dict[tuple[str, Source], set[int]] = field(default_factory=lambda: defaultdict(set))
    repeats: list[Repeat] = field(default_factory=list)
    records: int = 0
    #: Hashes instead of ids: an id may have 128 characters.
    _hashes: set[int] = field(default_factory=set)

    async def read(
        self,
        records: AsyncIterator[LogRecord],
        positions: Mapping[tuple[str, Source], int],
        replayed: Mapping[Place, int | None],
    ) -> None:
        """Count the outputs of source events below `positions`.

        `replayed`: the offsets of replays, to which outputs of replayed events belong; None: not to count.
        """
        async for record in records:
            self.records += 1
            output = output_of(record)
            if output is None:
                continue
            key, offset = (output.transform, output.source), output.offset
            is_below = offset < positions.get(key, 0)
            place = Place(output.transform, output.source, output.offset)
            if place in replayed:
                at = replayed[place]
                key, is_below = (output.transform, REPLAYS), at is not None
                offset = offset if at is None else at
            if is_below:
                self._add(key, offset, output, record)

    def _add(self, key: tuple[str, Source], offset: int, output: Output, record: LogRecord) -> None:
        if (known := hash(output)) in self._hashes:
            self.repeats.append(Repeat(output, f"{record.source}/{record.offset}"))
            return
        self._hashes.add(known)
        self.outputs[key] += 1
        self.emitted[key].add(offset)


def output_of(record: LogRecord) -> Output | None:
    """Return the output in a record; None for another event."""
    version, receipt = (record.headers.get(name) for name in (wire.HEADER_TRANSFORM, wire.HEADER_SOURCE))
    if version is None or receipt is None:
        return None
    try:
        topic, partition, offset = receipt.decode().rsplit("/", 2)
        event_id = json.loads(record.value or b"")["metadata"]["id"]
        source = Source(topic, int(partition))
        return Output(version.decode().partition("@")[0], source, int(offset), str(event_id))
    except (*UNREADABLE, ValueError, KeyError, TypeError):
        return None
