"""The lives of a partition: over which offsets each is judged, and what was lost between them.

A log that lost events goes on as another life when a person says so (docs/adr, logs that go back),
and `onramp.settled` says which follows which.  Of a topic that was made anew nothing is left to read.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from services.admin.audit.books import Books
from services.admin.findings import Code, Finding, Life, Report, Source


class Part(NamedTuple):
    """What can be read again of a life: the settled offsets `first` to `upto`."""

    life: Life
    first: int
    upto: int
    #: Below it other lives have had offsets too: a row or a parked event may be theirs.
    shared: int = 0
    #: From here on the offsets are a later life's; None: there is none.
    until: int | None = None

    def __len__(self) -> int:
        """How many offsets it has."""
        return max(self.upto - self.first, 0)


def parts(books: Books) -> list[Part]:
    """Every life of the logs that Kafka has today, by partition, from the first on."""
    return [_part(books, life) for source in sorted(books.lives) for life in books.chain(source)]


def _part(books: Books, life: Life) -> Part:
    chain = books.chain(life.source)
    later = chain[chain.index(life) + 1 :]
    until = min((books.start(other) for other in later), default=None)
    stand = books.stand(life)
    others = [books.stand(o) for o in books.of(life.source) if o != life and o not in later]
    return Part(
        life,
        max(books.start(life), books.spans.get(life.source, (0, 0))[0]),
        stand if until is None else min(stand, until),
        max(others, default=0),
        until,
    )


def deleted(books: Books) -> Iterator[Finding]:
    """What Kafka deleted before it was settled, and nobody has accepted that yet."""
    for life in books.newest():
        begin = books.spans.get(life.source, (0, 0))[0]
        yield from _between(life.source, books.stand(life), begin, "")


def given_up(books: Books) -> Iterator[Finding]:
    """The same where the log went on as another life: it is lost, whoever accepted that."""
    for source in sorted(books.lives):
        chain = books.chain(source)
        for life, following in pairwise(chain):
            by = books.settled.words.get(source) if following == chain[-1] else None
            accepted = f": {by or 'a person'} accepted that"
            yield from _between(source, books.stand(life), books.start(following), accepted)


def _between(source: Source, stand: int, begin: int, accepted: str) -> Iterator[Finding]:
    if stand < begin:
        text = f"Kafka deleted [{stand}, {begin}) before it was settled{accepted}"
        yield Finding(Code.LOST, source, stand, text)


def say_unread(books: Books, report: Report) -> None:
    """Events whose receipts nobody can read again, because another life has their offsets: unjudged."""
    for source in sorted(books.lives):
        chain = books.chain(source)
        for life in books.of(source):
            if life not in chain:
                n = max(books.stand(life) - books.start(life), 0)
                why = "of a topic of this name that is gone, or of a log that nobody can tell from it"
            elif (until := _part(books, life).until) is not None:
                n = max(books.stand(life) - max(until, books.start(life)), 0)
                why = f"of a log that was cut at {until}; what it held above them nobody knows"
            else:
                continue
            if n:
                report.unjudged += n
                report.unchecked.append(f"{source}: {n} events are {why}: they are checked by count alone")
