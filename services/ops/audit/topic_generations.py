"""The generations of a partition: the offsets that each is checked over, and the losses between them.

A log that lost events continues as another generation when an operator accepts the loss (docs/adr, logs
that go back), and `onramp.settled` records the succession.  A recreated topic has no old records left.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from services.ops.audit.ledgers import Books
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


def readable_ranges(books: Books) -> list[ReadableRange]:
    """Return a range for each generation of Kafka's current logs, the first generation first."""
    return [
        _readable_range(books, generation)
        for source in sorted(books.topic_ids)
        for generation in books.chain(source)
    ]


def _readable_range(books: Books, generation: Generation) -> ReadableRange:
    chain = books.chain(generation.source)
    later = chain[chain.index(generation) + 1 :]
    until = min((books.start(other) for other in later), default=None)
    next_offset = books.next_offset(generation)
    others = [
        books.next_offset(o)
        for o in books.generations_of(generation.source)
        if o != generation and o not in later
    ]
    return ReadableRange(
        generation=generation,
        first=max(books.start(generation), books.spans.get(generation.source, (0, 0))[0]),
        upto=next_offset if until is None else min(next_offset, until),
        shared=max(others, default=0),
        until=until,
    )


def deleted(books: Books) -> Iterator[Finding]:
    """Yield ranges that Kafka deleted before they were settled, and that no operator has accepted."""
    for generation in books.newest():
        first = books.spans.get(generation.source, (0, 0))[0]
        yield from _between(generation.source, books.next_offset(generation), first, "")


def dead_lettered(books: Books) -> Iterator[Finding]:
    """Yield the deleted ranges that an operator accepted: the log continued, and the events are lost."""
    for source in sorted(books.topic_ids):
        chain = books.chain(source)
        for generation, following in pairwise(chain):
            by = books.settled.answered_by.get(source) if following == chain[-1] else None
            accepted = f": {by or 'an operator'} accepted that"
            yield from _between(source, books.next_offset(generation), books.start(following), accepted)


def _between(source: Source, end: int, start: int, accepted: str) -> Iterator[Finding]:
    if end < start:
        text = f"Kafka deleted [{end}, {start}) before it was settled{accepted}"
        yield Finding(Code.LOST, source, end, text)


def report_unreadable(books: Books, report: Report) -> None:
    """Count events as unchecked that cannot be read because another generation has their offsets."""
    for source in sorted(books.topic_ids):
        chain = books.chain(source)
        for generation in books.generations_of(source):
            if generation not in chain:
                n = max(books.next_offset(generation) - books.start(generation), 0)
                reason = "of a deleted topic of this name, or of a log that cannot be distinguished from it"
            elif (until := _readable_range(books, generation).until) is not None:
                n = max(books.next_offset(generation) - max(until, books.start(generation)), 0)
                reason = f"of a log that was truncated at {until}; its records above them are unknown"
            else:
                continue
            if n:
                report.unjudged += n
                report.unchecked.append(f"{source}: {n} events are {reason}: they are checked by count alone")
