"""The parts that figures come from, and since when a part has not answered."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Part:
    """A gateway, a writer, a database or Kafka: whether it answers, since when, and why not."""

    kind: str
    name: str
    is_up: bool
    since: datetime
    reason: str = ""

    def describe(self) -> str:
        """Return a sentence for operators."""
        if self.is_up:
            return f"{self.name} answers"
        return f"{self.name} does not answer, since {self.since:%H:%M:%S} UTC: {self.reason}"


class PartStates:
    """The state of each part, and its start as observed by this service."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}

    def update(self, kind: str, reasons: Iterable[tuple[str, str]]) -> None:
        """Set all parts of a kind: (name, why it does not answer, or an empty text)."""
        now = datetime.now(UTC)
        current = {}
        for name, reason in reasons:
            before = self._parts.get(name)
            if before is None or before.is_up is bool(reason):
                current[name] = Part(kind, name, not reason, now, reason)
            else:
                current[name] = replace(before, reason=reason)
        others = {name: part for name, part in self._parts.items() if part.kind != kind}
        self._parts = others | current

    def all(self) -> tuple[Part, ...]:
        """Return all parts, by kind and name."""
        return tuple(sorted(self._parts.values(), key=lambda part: (part.kind, part.name)))
