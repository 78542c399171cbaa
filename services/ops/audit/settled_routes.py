"""The routes under which each offset was settled, as its database recorded them, to check missing rows.

Without a record all routes that ever existed are considered; an event about which they disagree
is reported as unchecked.
"""

from collections.abc import Iterator

from services.ops.audit.audit_data import AuditData
from services.ops.audit.settled_log import Routed
from services.ops.findings import Code, Finding, Generation
from services.ops.offset_ranges import History, Span


def check_gaps(data: AuditData, generation: Generation) -> Iterator[Finding]:
    """Yield ranges below a ledger that no transaction settled."""
    for name, database in data.databases.items():
        if history := database.history.get(generation):
            for start, end in history.gaps(database.ledger[generation]):
                text = (
                    f"the ledger of {name} has passed [{start}, {end}) and no transaction settled it: "
                    "it was moved by hand, or an operator gave the range up"
                )
                yield Finding(Code.GAP, generation.source, start, text)


class SettledRoutes:
    """The routes under which the offsets of one generation were settled, by database."""

    def __init__(self, data: AuditData, generation: Generation, default: str) -> None:
        self._data = data
        self._generation = generation
        self._default = default
        self._histories = {
            name: database.history.get(generation, History()) for name, database in data.databases.items()
        }
        self._covered = {name: data.covered(name, generation) for name in data.databases}
        self._markers = {
            name: History.of(
                (Span(m.start, m.end, m.digest) for m in data.sorted_markers(name, generation)), covered
            )
            for name, covered in self._covered.items()
        }

    def choices(self, database: str, event: str, offset: int) -> set[frozenset[Routed]]:
        """Return the event's possible sets of tables in `database`: one if known, else several."""
        log = self._data.settled
        digests = self._digests(database, offset)
        if not digests or not digests <= log.routes.keys():
            return {self._in(database, every) for every in self._every(event)}
        return {self._in(database, log.destinations(event, digest)) for digest in digests}

    def _digests(self, database: str, offset: int) -> set[str]:
        """Return the digests of the routes that may apply; empty if unknown."""
        history = self._histories[database]
        if digest := history.at(offset) or self._markers[database].at(offset):
            return {digest}
        # Skipped, or not reached yet: the neighbouring ranges have its event's routes.
        if history.began_before(offset) or offset >= self._covered[database]:
            return {known for neighbour in self._histories.values() if (known := neighbour.at(offset))}
        return set()

    def _every(self, event: str) -> list[frozenset[Routed]]:
        """Return all choices with the given databases: other writers of this Kafka have their own."""
        choices = self._data.settled.all_choices(event, self._default)
        ours = self._data.databases.keys()
        return [c for c in choices if any(routed.table.database in ours for routed in c)] or choices

    @staticmethod
    def _in(database: str, choice: frozenset[Routed]) -> frozenset[Routed]:
        return frozenset(r for r in choice if r.table.database == database)
