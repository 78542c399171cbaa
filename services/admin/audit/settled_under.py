"""Under which routes each offset was settled, as its database tells it: what a missing row is judged by.

Where a database does not say, all routes that ever were are asked; an event about which they
do not agree is nobody's to judge.
"""

from collections.abc import Iterator

from services.admin.audit.books import Books
from services.admin.audit.settled_log import Routed
from services.admin.findings import Code, Finding, Life
from services.admin.spans import History, Span


def check_gaps(books: Books, life: Life) -> Iterator[Finding]:
    """No ledger has passed what no transaction settled."""
    for name, database in books.databases.items():
        if history := database.history.get(life):
            for start, end in history.gaps(database.ledger[life]):
                text = (
                    f"the ledger of {name} has passed [{start}, {end}) and no transaction settled it: "
                    "it was moved by hand, or a person gave the range up"
                )
                yield Finding(Code.GAP, life.source, start, text)


class Under:
    """The routes that hold for the offsets of one life."""

    def __init__(self, books: Books, life: Life, default: str) -> None:
        self._books = books
        self._life = life
        self._default = default
        self._histories = {n: d.history.get(life, History()) for n, d in books.databases.items()}
        self._covered = {n: books.covered(n, life) for n in books.databases}
        self._markers = {
            n: History.of((Span(m.start, m.end, m.digest) for m in books.sorted_markers(n, life)), at)
            for n, at in self._covered.items()
        }

    def choices(self, database: str, event: str, offset: int) -> set[frozenset[Routed]]:
        """Where in `database` the event may have gone, once for each that can be: one, where it is known."""
        log = self._books.settled
        digests = self._digests(database, offset)
        if not digests or not digests <= log.routes.keys():
            return {self._in(database, every) for every in self._every(event)}
        return {self._in(database, log.destinations(event, digest)) for digest in digests}

    def _digests(self, database: str, offset: int) -> set[str]:
        """Of the routes that may hold; none when nobody knows."""
        history = self._histories[database]
        if found := history.at(offset) or self._markers[database].at(offset):
            return {found}
        # Passed over, or not come to yet: the neighbours say where its event was to go.
        if history.began_before(offset) or offset >= self._covered[database]:
            return {d for of in self._histories.values() if (d := of.at(offset))}
        return set()

    def _every(self, event: str) -> list[frozenset[Routed]]:
        """All ways that there ever were to our databases: other writers of this Kafka have theirs."""
        found = self._books.settled.ever(event, self._default)
        return [c for c in found if any(r.place.database in self._books.databases for r in c)] or found

    @staticmethod
    def _in(database: str, choice: frozenset[Routed]) -> frozenset[Routed]:
        return frozenset(r for r in choice if r.place.database == database)
