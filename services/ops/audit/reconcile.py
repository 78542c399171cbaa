"""Reconciles totals: read events have outcomes, and Kafka's records were counted."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.ops.audit.audit_data import AuditData
from services.ops.audit.checks import one_destination
from services.ops.audit.reading_result import ReadingResult
from services.ops.findings import Code, Finding, Generation, Line


@dataclass(frozen=True, slots=True)
class Sums:
    """The totals of one generation of a partition, and the result of reading it (None: not read whole)."""

    data: AuditData
    generation: Generation
    line: Line
    result: ReadingResult | None

    def unchecked(self) -> str | None:
        """Return why these totals cannot be checked, or None."""
        source, baseline = self.generation.source, self.data.baseline(self.generation)
        if not baseline:
            return f"{source}: no baseline was ever written, so its sums cannot be checked"
        absent = baseline.keys() - self.data.databases.keys()
        if unknown := sorted(absent - self.data.settled.retired):
            return f"{source}: the sums need the database {', '.join(unknown)}, which was not given"
        if absent and self.result is None:  # receipts separate the events of other databases
            names = ", ".join(sorted(absent))
            return f"{source}: its events went to {names} too, which is retired: --deep tells them apart"
        return None

    def are_of_one_moment(self, in_motion: str | None) -> bool:
        """Return whether the totals are consistent: with a running writer, only if each receipt agrees.

        `in_motion` is the sign of a running writer, or None.  Events that arrived meanwhile can hide as
        many lost ones, and simulate as many missing ones.
        """
        return not in_motion or (self.result is not None and not any(self.findings()))

    def findings(self) -> Iterator[Finding]:
        """Yield the totals that do not reconcile."""
        if self.result is not None:
            yield from self._against_receipts(self.result)
        elif not self._fit():
            yield self._unbalanced(self.line.read)

    def _fit(self) -> bool:
        """Compare without receipts: an event may have several destinations, and has at least one outcome."""
        if self.line.refused == self.line.unroutable and one_destination(self.data, self.generation):
            return self.line.accounted == self.line.read
        return self.line.accounted >= self.line.read

    def _against_receipts(self, result: ReadingResult) -> Iterator[Finding]:
        line = self.line
        if result.filtered != line.filtered:
            yield self._wrong(f"{line.filtered} are counted as filtered, Kafka holds {result.filtered}")
        sure = result.filtered + result.pairs
        if not sure <= line.accounted <= sure + result.unjudged.total():
            yield self._unbalanced(sure)
        for name, database in self.data.databases.items():
            for table in database.counts:
                if table.database == name:
                    key = (self.generation, table.destination, "duplicate")
                    counted, shown = database.totals.get(key, 0), result.duplicates[table]
                    if not shown <= counted <= shown + result.unjudged[table]:
                        yield self._wrong(f"{table} counts {counted} duplicates, the receipts show {shown}")

    def _wrong(self, detail: str) -> Finding:
        return Finding(Code.WRONG_TOTAL, self.generation.source, None, detail)

    def _unbalanced(self, expected: int) -> Finding:
        line = self.line
        outcomes = ", ".join(f"{n} {name}" for name, n in line.outcomes.items()) or "none landed"
        return Finding(
            Code.UNBALANCED,
            self.generation.source,
            None,
            f"{expected} were to be accounted for in [{line.baseline}, {line.next_offset}); the totals are "
            f"{line.filtered} filtered, {line.refused} refused, {outcomes}, {line.waiting} waiting: "
            f"{line.accounted} in all",
        )
