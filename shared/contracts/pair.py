"""Two subschemas for the same place of a payload, and what was found about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What a finding means for the change."""

    #: Something that the old schema takes is rejected by the new one.
    BREAK = "break"
    #: It may be one; a person must look.
    UNDECIDED = "undecided"
    #: Compatible, unless events already carried what nobody had written down.
    WARNING = "warning"


class Finding(NamedTuple):
    """One place where the new schema may take less."""

    kind: Kind
    #: Into the new schema, along what refers to it.
    pointer: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Pair:
    """Two subschemas for the same place of a payload."""

    old: Mapping[str, Any]
    new: Mapping[str, Any]
    pointer: str
    #: The kinds of values that may stand there.
    kinds: frozenset[str]
    #: The old one says more than is compared: what looks like a break may be none.
    vague: bool
    findings: list[Finding] = field(default_factory=list)
    #: What is to be compared below: the old, the new, where, and whether this was vague.
    below: list[tuple[Any, Any, str, bool]] = field(default_factory=list)

    def breaks(self, key: str, reason: str) -> None:
        """Note that the new schema takes less, by this keyword."""
        self.note(Kind.UNDECIDED if self.vague else Kind.BREAK, key, reason)

    def undecided(self, key: str, reason: str) -> None:
        """Note that a person must look."""
        self.note(Kind.UNDECIDED, key, reason)

    def note(self, kind: Kind, key: str, reason: str) -> None:
        """Note a finding at the keyword; without one, about the whole."""
        self.findings.append(Finding(kind, f"{self.pointer}/{key}" if key else self.pointer, reason))

    def then(self, old: Any, new: Any, *path: str) -> None:
        """Have two subschemas compared that stand below, at this path of the new one."""
        self.below.append((old, new, "/".join([self.pointer, *map(escaped, path)]), self.vague))


def escaped(name: str) -> str:
    """Return a name as a part of a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")
