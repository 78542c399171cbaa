"""The report of a rehearsal: as lines for people, as JSON for programs, and as an exit code."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from services.transform.rehearsal.tally import Group, Groups, Tally
from shared.kafka_read.history import Window, WindowRanges
from shared.printable_text import printable
from shared.trial_program import Exit, notes_on, window_as_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results of a rehearsal."""

    name: str
    digest: str
    live_digest: str | None
    tally: Tally
    ranges: WindowRanges
    window: Window
    seconds: float

    @property
    def exit(self) -> Exit:
        """The exit code: `FAILED` if an event newly fails, `UNCHECKED` if the rehearsal is incomplete."""
        if self.tally.newly_parked:
            return Exit.FAILED
        return Exit.UNCHECKED if self.unchecked() else Exit.OK

    def unchecked(self) -> list[str]:
        """Return the parts of the window that were not tried, with reasons."""
        lines = list(self.tally.unchecked)
        if not self.tally.events:
            lines.append("Kafka holds no event of the window: give a longer --since, or --last")
        return lines

    def notes(self) -> list[str]:
        """Return the notes on the window and the version."""
        is_live = self.live_digest == self.digest
        return [*(["this version is the deployed one"] if is_live else []), *notes_on(self.ranges)]

    def as_dict(self) -> dict[str, Any]:
        """Return the report for programs."""
        tally = self.tally
        return {
            "exit": int(self.exit),
            "transform": self.name,
            "digest": self.digest,
            "live_digest": self.live_digest,
            "window": window_as_dict(self.window, self.ranges),
            "read": tally.read,
            "filtered": tally.filtered,
            "emitted": tally.emitted,
            "dropped": tally.dropped,
            "parked": tally.parked,
            "newly_parked": tally.newly_parked,
            "outputs": dict(sorted(tally.outputs.items())),
            "failures": [
                {**cause._asdict(), **_group(group)} for cause, group in tally.failures.by_frequency()
            ],
            "differing": tally.differing if self.live_digest else None,
            "differences": [
                {"place": place, **_group(group)} for place, group in tally.differences.by_frequency()
            ],
            "deaths": tally.deaths,
            "p50_us": round(tally.microseconds(0.5), 1),
            "p99_us": round(tally.microseconds(0.99), 1),
            "peak_memory_bytes": tally.peak_memory,
            "seconds": round(self.seconds, 3),
            "unchecked": self.unchecked(),
            "notes": self.notes(),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report's lines for people."""
        tally = self.tally
        yield f"{self.name}@{self.digest[:12]}: {tally.events:,} events in {self.seconds:.1f} s"
        yield from (f"note: {each}" for each in self.notes())
        yield f"  {tally.emitted:,} emitted, {tally.dropped:,} dropped, {tally.parked:,} parked"
        yield from (f"    {count:,} {name}" for name, count in sorted(tally.outputs.items()))
        if tally.filtered:
            yield f"  {tally.filtered:,} other records of the topic skipped"
        yield from _lines("failures", tally.failures)
        if self.live_digest:
            yield f"  differs from {self.live_digest[:12]} (live): {tally.differing:,} events"
            yield from _lines("differences", tally.differences)
        yield (
            f"  function: p50 {tally.microseconds(0.5):,.1f} µs, p99 {tally.microseconds(0.99):,.1f} µs, "
            f"{tally.peak_memory / (1 << 20):,.0f} MiB"
        )
        yield from (f"not checked: {each}" for each in self.unchecked())


def _group(group: Group) -> dict[str, Any]:
    return {
        "events": group.events,
        "samples": [{"receipt": each.receipt, "event": each.event} for each in group.samples],
    }


def _lines(label: str, groups: Groups) -> Iterator[str]:
    for key, group in groups.by_frequency():
        yield f"    {group.events:,} times {printable(str(key))}"
        for sample in group.samples:
            yield f"      {printable(sample.receipt)} {json.dumps(sample.event)}"
    if groups.others:
        yield f"    {groups.others:,} events with further {label}"
