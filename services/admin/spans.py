"""Ranges of offsets and the routes that they were settled under, as one database tells them."""

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
    """What one database says of one life of a partition: spans by offset, which do not overlap."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, told: Iterable[Span], ledger: int) -> "History":
        """`told` in the order it was written: what a ledger that went back settled again counts."""
        found: list[Span] = []
        for span in told:
            while found and found[-1].start >= span.start:
                found.pop()
            if found and found[-1].end > span.start:
                found[-1] = found[-1]._replace(end=span.start)
            found.append(span)
        kept = (s._replace(end=min(s.end, ledger)) for s in found)
        return cls(tuple(s for s in kept if s.start < s.end))

    def at(self, offset: int) -> str | None:
        """The digest of the routes that `offset` was settled under, None where nothing says."""
        at = bisect_right(self.spans, offset, key=_start) - 1
        return self.spans[at].digest if at >= 0 and offset < self.spans[at].end else None

    def began_before(self, offset: int) -> bool:
        """Whether the database kept it by `offset`: then each settled offset is in a span."""
        return bool(self.spans) and self.spans[0].start <= offset

    def gaps(self, ledger: int) -> Iterator[tuple[int, int]]:
        """What the ledger has passed and no transaction settled."""
        ends = [s.end for s in self.spans]
        starts = [*(s.start for s in self.spans[1:]), ledger]
        yield from ((end, start) for end, start in zip(ends, starts, strict=False) if end < start)


def _start(span: Span) -> int:
    return span.start
