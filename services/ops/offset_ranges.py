"""Ranges of offsets and the routes that they were settled under, as one database has them."""

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
    """What one database says of one generation: spans by offset, which do not overlap."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span], ledger: int) -> "History":
        """Make it of `spans` in the order they were written: of what was settled again the last counts."""
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
        """Return the digest of the routes that `offset` was settled under, None where nothing says."""
        index = bisect_right(self.spans, offset, key=_start) - 1
        return self.spans[index].digest if index >= 0 and offset < self.spans[index].end else None

    def began_before(self, offset: int) -> bool:
        """Tell whether spans were kept by `offset`: then each settled offset is in one."""
        return bool(self.spans) and self.spans[0].start <= offset

    def gaps(self, ledger: int) -> Iterator[tuple[int, int]]:
        """Yield what the ledger has passed and no transaction settled."""
        ends = [s.end for s in self.spans]
        starts = [*(s.start for s in self.spans[1:]), ledger]
        yield from ((end, start) for end, start in zip(ends, starts, strict=False) if end < start)


def _start(span: Span) -> int:
    return span.start
