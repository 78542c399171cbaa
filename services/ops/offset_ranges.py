"""Offset ranges with the routes that they were settled under, in one database."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """Offsets `start` (included) to `end` (excluded) that were settled under the routes `digest`."""

    start: int
    end: int
    digest: str


@dataclass(frozen=True, slots=True)
class History:
    """One database's settled ranges of one generation, by offset, without overlaps."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span], ledger: int) -> "History":
        """Build it from `spans` in the order written: for a range settled twice, the last counts."""
        kept: list[Span] = []
        for span in spans:
            while kept and kept[-1].start >= span.start:
                kept.pop()
            if kept and kept[-1].end > span.start:
                kept[-1] = kept[-1]._replace(end=span.start)
            kept.append(span)
        settled = (s._replace(end=min(s.end, ledger)) for s in kept)
        return cls(tuple(s for s in settled if s.start < s.end))

    def at(self, offset: int) -> str | None:
        """Return the digest of the routes that `offset` was settled under, or None if unknown."""
        index = bisect_right(self.spans, offset, key=_start) - 1
        return self.spans[index].digest if index >= 0 and offset < self.spans[index].end else None

    def began_before(self, offset: int) -> bool:
        """Return whether ranges were already recorded at `offset`: then each settled offset is in one."""
        return bool(self.spans) and self.spans[0].start <= offset

    def gaps(self, ledger: int) -> Iterator[tuple[int, int]]:
        """Yield ranges below the ledger that no transaction settled."""
        ends = [s.end for s in self.spans]
        starts = [*(s.start for s in self.spans[1:]), ledger]
        yield from ((end, start) for end, start in zip(ends, starts, strict=False) if end < start)


def _start(span: Span) -> int:
    return span.start
