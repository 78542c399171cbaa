"""The generations of a partition: the offsets that each is checked over, and the losses between them.

A log that lost events continues as another generation when an operator accepts the loss (docs/adr, logs
that go back), and `onramp.settled` records the succession.  A recreated topic has no old records left.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from services.ops.audit.ledgers import Books
from services.ops.findings import Code, Finding, Incarnation, Report, Source


class ReadableRange(NamedTuple):
    """The readable part of a generation: the settled offsets `first` to `upto`."""

    incarnation: Incarnation
    first: int
    upto: int
    #: Below it other incarnations have had offsets too: a row or a parked event may be theirs.
    shared: int = 0
    #: From here on the offsets are a later incarnation's; None: there is none.
    until: int | None = None

    def __len__(self) -> int:
        """Return how many offsets it has."""
        return max(self.upto - self.first, 0)


def readable_ranges(books: Books) -> list[ReadableRange]:
    """Return a range for each generation of Kafka's current logs, the first generation first."""
    return [
        _readable_range(books, incarnation)
        for source in sorted(books.topic_ids)
        for incarnation in books.chain(source)
    ]


def _readable_range(books: Books, incarnation: Incarnation) -> ReadableRange:
    chain = books.chain(incarnation.source)
    later = chain[chain.index(incarnation) + 1 :]
    until = min((books.start(other) for other in later), default=None)
    next_offset = books.next_offset(incarnation)
    others = [
        books.next_offset(o)
        for o in books.incarnations_of(incarnation.source)
        if o != incarnation and o not in later
    ]
    return ReadableRange(
        incarnation=incarnation,
        first=max(books.start(incarnation), books.spans.get(incarnation.source, (0, 0))[0]),
        upto=next_offset if until is None else min(next_offset, until),
        shared=max(others, default=0),
        until=until,
    )


def deleted(books: Books) -> Iterator[Finding]:
    """Yield ranges that Kafka deleted before they were settled, and that no operator has accepted."""
    for incarnation in books.newest():
        first = books.spans.get(incarnation.source, (0, 0))[0]
        yield from _between(incarnation.source, books.next_offset(incarnation), first, "")


def dead_lettered(books: Books) -> Iterator[Finding]:
    """Yield the deleted ranges that an operator accepted: the log continued, and the events are lost."""
    for source in sorted(books.topic_ids):
        chain = books.chain(source)
        for incarnation, following in pairwise(chain):
            by = books.settled.answered_by.get(source) if following == chain[-1] else None
            accepted = f": {by or 'an operator'} accepted that"
            yield from _between(source, books.next_offset(incarnation), books.start(following), accepted)


def _between(source: Source, end: int, start: int, accepted: str) -> Iterator[Finding]:
    if end < start:
        text = f"Kafka deleted [{end}, {start}) before it was settled{accepted}"
        yield Finding(Code.LOST, source, end, text)


def report_unreadable(books: Books, report: Report) -> None:
    """Count events as unchecked that cannot be read because another generation has their offsets."""
    for source in sorted(books.topic_ids):
        chain = books.chain(source)
        for incarnation in books.incarnations_of(source):
            if incarnation not in chain:
                n = max(books.next_offset(incarnation) - books.start(incarnation), 0)
                reason = "of a topic of this name that is gone, or of a log that nobody can tell from it"
            elif (until := _readable_range(books, incarnation).until) is not None:
                n = max(books.next_offset(incarnation) - max(until, books.start(incarnation)), 0)
                reason = f"of a log that was cut at {until}; what it held above them nobody knows"
            else:
                continue
            if n:
                report.unjudged += n
                report.unchecked.append(f"{source}: {n} events are {reason}: they are checked by count alone")
