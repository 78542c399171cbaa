"""The sums: what was read is what has a verdict, and what Kafka holds is what was counted."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.admin.audit.books import Books, one_destination
from services.admin.audit.receipts import Seen
from services.admin.findings import Code, Finding, Life, Line


@dataclass(frozen=True, slots=True)
class Sums:
    """One partition's life, and what its reading has seen (None: it was not read whole)."""

    books: Books
    life: Life
    line: Line
    seen: Seen | None

    def unchecked(self) -> str | None:
        """Why these sums cannot be checked at all, if so."""
        source, baseline = self.life.source, self.books.baseline(self.life)
        if not baseline:
            return f"{source}: no baseline was ever written, so its sums cannot be checked"
        if unknown := sorted(baseline.keys() - self.books.databases.keys()):
            return f"{source}: the sums need the database {', '.join(unknown)}, which was not given"
        return None

    def are_of_one_moment(self, in_motion: str | None) -> bool:
        """Whether they can be believed: where a writer is `in_motion`, only if each receipt agrees.

        What has come meanwhile can hide as many as were lost, and miss as many as were not.
        """
        return not in_motion or (self.seen is not None and not any(self.findings()))

    def findings(self) -> Iterator[Finding]:
        """What does not add up."""
        if self.seen is not None:
            yield from self._against_receipts(self.seen)
        elif not self._fit():
            yield self._unbalanced(self.line.read)

    def _fit(self) -> bool:
        """Without the receipts: an event may have several destinations, and has at least one verdict."""
        if self.line.refused == self.line.unroutable and one_destination(self.books, self.life):
            return self.line.accounted == self.line.read
        return self.line.accounted >= self.line.read

    def _against_receipts(self, seen: Seen) -> Iterator[Finding]:
        line = self.line
        if seen.filtered != line.filtered:
            yield self._wrong(f"{line.filtered} are counted as filtered, Kafka holds {seen.filtered}")
        sure = seen.filtered + seen.pairs
        if not sure <= line.accounted <= sure + seen.unjudged.total():
            yield self._unbalanced(sure)
        for name, database in self.books.databases.items():
            for place in database.counts:
                if place.database == name:
                    key = (self.life, place.destination, "duplicate")
                    counted, shown = database.totals.get(key, 0), seen.duplicates[place]
                    if not shown <= counted <= shown + seen.unjudged[place]:
                        yield self._wrong(f"{place} counts {counted} duplicates, the receipts show {shown}")

    def _wrong(self, detail: str) -> Finding:
        return Finding(Code.WRONG_TOTAL, self.life.source, None, detail)

    def _unbalanced(self, expected: int) -> Finding:
        line = self.line
        said = ", ".join(f"{n} {name}" for name, n in line.outcomes.items()) or "none landed"
        return Finding(
            Code.UNBALANCED,
            self.life.source,
            None,
            f"{expected} were to be accounted for in [{line.baseline}, {line.next_offset}); the books say "
            f"{line.filtered} filtered, {line.refused} refused, {said}, {line.waiting} waiting: "
            f"{line.accounted} in all",
        )
