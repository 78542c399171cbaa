"""The report of a plan: as lines for people, as JSON for programs, and as an exit code."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.writer.plan.reasons import Reason
from services.writer.plan.survey import Survey
from services.writer.plan.tally import (
    Newly,
    Outcomes,
    Sample,
    TaskTally,
    TypeTally,
    by_frequency,
)
from shared.contracts.pair import Kind
from shared.kafka_read.history import Window, WindowRanges
from shared.kafka_read.offsets import total
from shared.printable_text import printable
from shared.registry.changes import SchemaChange
from shared.trial_program import Exit, notes_on, window_as_dict

#: Effects that no plan can try, for any table.
NOT_TRIED: Final = (
    "other parts of tables than columns, checks and keys (foreign keys, triggers), and existing rows",
    "changes of sources, and their models",
    "the permissions of API keys: every event with a name is treated as sent through the gateway",
)
_PROPERTY: Final = "properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results of a plan."""

    tally: TaskTally
    window_ranges: WindowRanges
    window: Window
    surveys: Mapping[str, Survey]
    findings: list[SchemaChange]
    #: Notes of `onramp apply` on entries that others have changed since.
    merge: list[str]
    #: Whether both registries are equal.
    same: bool
    seconds: float

    @property
    def exit(self) -> Exit:
        """The exit code: `FAILED` if an event newly fails, `UNCHECKED` if the plan is incomplete."""
        if any(each.newly_fail.events for each in self.tally.types.values()):
            return Exit.FAILED
        if self.tally.failure:
            return Exit.UNAVAILABLE
        return Exit.UNCHECKED if self.unchecked() else Exit.OK

    def unchecked(self) -> list[str]:
        """Return the parts of the plan that were not tried, with reasons."""
        lines = [
            f"database {name} was not surveyed: {each.out}"
            for name, each in sorted(self.surveys.items())
            if each.out
        ]
        lines += [
            f"{name}: {why}"
            for name, why in sorted(self.tally.untried.items())
            if not self.surveys[name.partition(".")[0]].out
        ]
        lines += [f"unread: {each}" for each in self.tally.unread]
        lines += [f"no broker leads {p}" for p in self.window_ranges.leaderless]
        if self.tally.failure:
            lines.append(self.tally.failure)
        if not self.tally.types:
            lines.append("Kafka holds no event of the window: give a longer --since, or --last")
        return lines

    def notes(self) -> list[str]:
        """Return the notes on the file and the window."""
        same = ["the file does not change the registry in force"] if self.same else []
        return [*self.merge, *same, *notes_on(self.window_ranges)]

    def as_dict(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "exit": int(self.exit),
            "window": window_as_dict(self.window, self.window_ranges),
            "read": self.tally.read,
            "filtered": self.tally.filtered,
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.tally.read / self.seconds) if self.seconds else 0,
            "types": {name: _type(each) for name, each in sorted(self.tally.types.items())},
            "schemas": [self._finding(each) for each in self.findings],
            "ddl": [each._asdict() for s in self._surveys() for each in s.ddl],
            "unchecked": self.unchecked(),
            "notes": self.notes(),
            "not_tried": [*NOT_TRIED, *(each for s in self._surveys() for each in s.untried)],
        }

    def lines(self) -> Iterator[str]:
        """Yield the report's lines for people."""
        rate = f", {self.tally.read / self.seconds:,.0f} a second" if self.seconds and self.tally.read else ""
        offsets = total(self.window_ranges.ranges)
        partitions = len(self.window_ranges.ranges)
        yield f"{offsets:,} offsets of {partitions} partitions in {self.seconds:.1f} s{rate}"
        yield from (f"note: {each}" for each in self.notes())
        for name, each in sorted(self.tally.types.items()):
            yield from _type_lines(name, each)
        for change in self.findings:
            yield from self._finding_lines(change)
        for ddl in (each for s in self._surveys() for each in s.ddl):
            rewrites = {
                True: "rewrites the table",
                False: "rewrites nothing",
                None: "not tried whether it rewrites",
            }
            yield f"apply would run: {ddl.sql}"
            yield f"  locks {ddl.lock}; {rewrites[ddl.rewrites]}"
        yield from (f"not checked: {each}" for each in self.unchecked())
        yield from (f"not tried: {each}" for each in NOT_TRIED)
        yield from (f"not tried: {each}" for s in self._surveys() for each in s.untried)

    def _surveys(self) -> list[Survey]:
        return [each for _, each in sorted(self.surveys.items())]

    def _finding(self, change: SchemaChange) -> dict[str, Any]:
        return {"event_type": change.event_type, **change.finding._asdict(), "events": self._came(change)}

    def _finding_lines(self, change: SchemaChange) -> Iterator[str]:
        kind, pointer, reason = change.finding
        yield f"{change.event_type} {pointer or '/'}: {kind}: {reason}"
        if kind is Kind.WARNING and (came := self._came(change)):
            yield f"  {came:,} events newly fail at this field"

    def _came(self, change: SchemaChange) -> int:
        """Return the number of events that newly fail at the payload's field of a finding."""
        at = in_payload(change.finding.pointer)
        tally = self.tally.types.get(change.event_type)
        if tally is None or at is None:
            return 0
        return sum(
            events
            for reason, events in tally.newly_fail.reasons.items()
            if reason.pointer == at or reason.pointer.startswith(f"{at}/")
        )


def in_payload(pointer: str) -> str | None:
    """Return the JSON Pointer in an event of the schema's field at `pointer`; None if it is not a field."""
    tokens = pointer.split("/")[1:]
    names = tokens[1::2]
    if not tokens or len(tokens) % 2 or any(each != _PROPERTY for each in tokens[::2]):
        return None
    return "/".join(["/payload", *names])


def _type(each: TypeTally) -> dict[str, Any]:
    return {
        "read": each.read,
        "old": _outcomes(each.old),
        "new": _outcomes(each.new),
        "newly_fails": _newly(each.newly_fail),
        "newly_passes": _newly(each.newly_pass),
    }


def _outcomes(each: Outcomes) -> dict[str, Any]:
    counts = {name: getattr(each, name) for name in ("refused", "landed", "parked", "untried")}
    return {**counts, "reasons": _reasons(each.reasons)}


def _newly(each: Newly) -> dict[str, Any]:
    return {
        "events": each.events,
        "reasons": _reasons(each.reasons),
        "samples": [
            {"receipt": s.receipt, "reasons": [r._asdict() for r in s.reasons], "event": s.event}
            for s in each.samples
        ],
    }


def _reasons(counted: Counter[Reason]) -> list[dict[str, Any]]:
    return [{**reason._asdict(), "events": events} for reason, events in by_frequency(counted)]


def _type_lines(name: str, each: TypeTally) -> Iterator[str]:
    yield f"{printable(name)}: {each.read:,} read"
    for label, side in (("in force", each.old), ("with the file", each.new)):
        untried = f", {side.untried:,} not tried" if side.untried else ""
        yield f"  {label}: {side.refused:,} refused, {side.parked:,} parked, {side.landed:,} landed{untried}"
        yield from _reason_lines(side.reasons)
    for label, newly in (("newly fails", each.newly_fail), ("newly passes", each.newly_pass)):
        if newly.events:
            yield f"  {label}: {newly.events:,}"
            yield from _reason_lines(newly.reasons)
            yield from (f"    {_sample(each)}" for each in newly.samples)


def _reason_lines(counted: Counter[Reason]) -> Iterator[str]:
    for reason, events in by_frequency(counted):
        at = f" {reason.pointer}" if reason.pointer else ""
        yield printable(f"    {events:,} times {reason.code}{at}: {reason.detail}")


def _sample(sample: Sample) -> str:
    return f"{printable(sample.receipt)} {json.dumps(sample.event)}"
