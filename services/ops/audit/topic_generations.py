"""The generations of a partition: the offsets that each is checked over, and the losses between them.

A log that lost events continues as another generation when an operator accepts the loss (docs/adr, logs
that go back), and `onramp.settled` records the succession.  A recreated topic has no old records left.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from services.ops.audit.audit_data import AuditData
from services.ops.findings import Code, Finding, Generation, Report, Source


class ReadableRange(NamedTuple):
    """The readable part of a generation: the settled offsets `first` to `upto`."""

    generation: Generation
    first: int
    upto: int
    #: Below it other generations have offsets too: a row or a parked event may be theirs.
    shared: int = 0
    #: The first offset of a later generation, or None.
    until: int | None = None

    def __len__(self) -> int:
        """Return how many offsets it has."""
        return max(self.upto - self.first, 0)


def readable_ranges(data: AuditData) -> list[ReadableRange]:
    """Return a range for each generation of Kafka's current logs, the first generation first."""
    return [
        _readable_range(data, generation)
        for source in sorted(data.topic_ids)
        for generation in data.chain(source)
    ]


def _readable_range(data: AuditData, generation: Generation) -> ReadableRange:
    chain = data.chain(generation.source)
    later = chain[chain.index(generation) + 1 :]
    until = min((data.start(other) for other in later), default=None)
    next_offset = data.next_offset(generation)
    others = [
        data.next_offset(o)
        for o in data.generations_of(generation.source)
        if o != generation and o not in later
    ]
    return ReadableRange(
        generation=generation,
        first=max(data.start(generation), data.spans.get(generation.source, (0, 0))[0]),
        upto=next_offset if until is None else min(next_offset, until),
        shared=max(others, default=0),
        until=until,
    )


def deleted(data: AuditData) -> Iterator[Finding]:
    """Yield ranges that Kafka deleted before they were settled, and that no operator has accepted."""
    for generation in data.newest():
        first = data.spans.get(generation.source, (0, 0))[0]
        yield from _between(generation.source, data.next_offset(generation), first, "")


def dead_lettered(data: AuditData) -> Iterator[Finding]:
    """Yield the deleted ranges that an operator accepted: the log continued, and the events are lost."""
    for source in sorted(data.topic_ids):
        chain = data.chain(source)
        for generation, following in pairwise(chain):
            by = data.settled.answered_by.get(source) if following == chain[-1] else None
            accepted = f": {by or 'an operator'} accepted that"
            yield from _between(source, data.next_offset(generation), data.start(following), accepted)


def _between(source: Source, end: int, start: int, accepted: str) -> Iterator[Finding]:
    if end < start:
        text = f"Kafka deleted [{end}, {start}) before it was settled{accepted}"
        yield Finding(Code.LOST, source, end, text)


def report_unreadable(data: AuditData, report: Report) -> None:
    """Count events as unchecked that cannot be read because another generation has their offsets."""
    for source in sorted(data.topic_ids):
        chain = data.chain(source)
        for generation in data.generations_of(source):
            if generation not in chain:
                n = max(data.next_offset(generation) - data.start(generation), 0)
                reason = "of a deleted topic of this name, or of a log that cannot be distinguished from it"
            elif (until := _readable_range(data, generation).until) is not None:
                n = max(data.next_offset(generation) - max(until, data.start(generation)), 0)
                reason = f"of a log that was truncated at {until}; its records above them are unknown"
            else:
                continue
            if n:
                report.unjudged += n
                report.unchecked.append(f"{source}: {n} events are {reason}: they are checked by count alone")
