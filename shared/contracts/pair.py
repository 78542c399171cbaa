"""Two subschemas for the same place of a payload, and the findings about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """The consequence of a finding for the change."""

    #: The new schema rejects a value that the old one accepts.
    BREAK = "break"
    #: It may be a break; a person must decide.
    UNDECIDED = "undecided"
    #: Compatible, unless events already had fields that the old schema does not name.
    WARNING = "warning"


class Finding(NamedTuple):
    """A place where the new schema may accept less."""

    kind: Kind
    #: The path in the new schema, including references.
    pointer: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Pair:
    """Two subschemas for the same place of a payload."""

    old: Mapping[str, Any]
    new: Mapping[str, Any]
    pointer: str
    #: The kinds of values possible at this place.
    kinds: frozenset[str]
    #: The old schema has keywords that are not compared: an apparent break may be none.
    vague: bool
    findings: list[Finding] = field(default_factory=list)
    #: Comparisons to do below: the old and new subschema, the path, and whether this pair was vague.
    below: list[tuple[Any, Any, str, bool]] = field(default_factory=list)

    def breaks(self, key: str, reason: str) -> None:
        """Record that the new schema accepts less, by this keyword."""
        self.note(Kind.UNDECIDED if self.vague else Kind.BREAK, key, reason)

    def undecided(self, key: str, reason: str) -> None:
        """Record that a person must decide."""
        self.note(Kind.UNDECIDED, key, reason)

    def note(self, kind: Kind, key: str, reason: str) -> None:
        """Record a finding at the keyword; without one, about the whole."""
        self.findings.append(Finding(kind, f"{self.pointer}/{key}" if key else self.pointer, reason))

    def then(self, old: Any, new: Any, *path: str) -> None:
        """Schedule the comparison of two subschemas below, at this path of the new one."""
        self.below.append((old, new, "/".join([self.pointer, *map(escaped, path)]), self.vague))


def escaped(name: str) -> str:
    """Return a name escaped for a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")
