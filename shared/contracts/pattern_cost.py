"""Computes the cost of patterns, in the unit of `schema_cost`.

Usual patterns become automata that read 1 MB in milliseconds. Three kinds take longer:

- many states at once
- look-around, word boundaries, possessive repetitions and references to groups, for which the validator tries
  repetitions again (backtracking)
- such a pattern with a repetition without a bound, which reads the rest of the text at many positions:
  `(?=.*a)b` takes 0.6 s for 30,000 characters, measured
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

#: A state of a pattern costs about 30 ns per character if a text is in many states at once.
_STATE: Final = 3
#: Patterns with fewer states become small automata.
_FEW_STATES: Final = 16
#: The cost of one step of backtracking: 20 to 80 ns, measured.
_STEP: Final = 4
#: Maximum steps of one match (shared/contracts/json_schema.py).
_MAX_STEPS: Final = 10_000
#: Maximum steps per character by the number of choices: a text of n characters takes n, n², n³, or 2^n steps.
_STEPS: Final = (1, 100, 460, 625)
#: Maximum positions at which the rest of a text is read (measured), and the cost of reading a character.
_MAX_POSITIONS: Final = 25_000
_READS_PER_UNIT: Final = 12
_TOKEN: Final = re.compile(r"\\[pPxu]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:(,)(\d*))?\}|.", re.DOTALL)
#: The same with the beginnings of groups, and lazy and possessive repetitions.
_PART: Final = re.compile(
    r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?(?:<?[=!]|P?<\w+>|[a-z-]*[:>)])|(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?|.",
    re.DOTALL,
)
_ASSERTIONS: Final = ("(?=", "(?!", "(?<=", "(?<!")
#: References to groups, word boundaries, and possessive repetitions.
_HARD: Final = re.compile(r"\\[1-9kbB]$|.*[*+?}]\+$", re.DOTALL)
#: Larger numbers of repetitions are not compiled.
_DIGITS: Final = 9
_UNBOUNDED: Final = re.compile(r"[*+]|\{\d+,\}")
_CAPTURING: Final = re.compile(r"(?<!\\)\((?!\?[^P<]|\?<[=!])")
#: With groups that are remembered a character takes 7 ns instead of 1.3 to 1.7 ns.
_WITH_GROUPS: Final = 5
#: A repeated group counts as so many choices.
_REPEATED_GROUP: Final = 4


@dataclass(slots=True)
class _Group:
    """A group that is being read: its choices that are tried again, and those that may be."""

    is_assertion: bool = False
    is_hard: bool = False
    again: int = 0
    pending: int = 0

    def add_hard(self, again: int = 0, pending: int = 0) -> None:
        """Add a look-around, a reference, or a group with one: the choices before it are tried again."""
        self.is_hard = True
        self.again += self.pending + again
        self.pending = pending


class TextWeights(NamedTuple):
    """The cost of patterns: of each character, and by the length of a text.

    `steps_1` to `steps_4`: patterns with this number of choices that are tried again, or more.
    `scans_1`, `scans_2`: repetitions that read the rest of a text at each position, or again for each choice.
    """

    automaton: int = 0
    steps_1: int = 0
    steps_2: int = 0
    steps_3: int = 0
    steps_4: int = 0
    scans_1: int = 0
    scans_2: int = 0

    def plus(self, other: "TextWeights") -> "TextWeights":
        """Return the sum."""
        return TextWeights(*(a + b for a, b in zip(self, other, strict=True)))

    def of_text(self, length: int) -> int:
        """Return the cost of a text by its length in bytes, without that of each character."""
        square = length * length
        powers = (length, square, square * length, 1 << min(length, _MAX_STEPS.bit_length()))
        steps = sum(n * min(power, _MAX_STEPS) for n, power in zip(self[1:5], powers, strict=True))
        return steps * _STEP + self._scans_of(length)

    def of_size(self, size: int) -> int:
        """Return the maximum cost of all texts in an event of this size in bytes."""
        steps = sum(n * of_character for n, of_character in zip(self[1:5], _STEPS, strict=True))
        return size * steps * _STEP + self._scans_of(size)

    def _scans_of(self, length: int) -> int:
        positions = self.scans_1 * min(length, _MAX_POSITIONS)
        positions += self.scans_2 * min(length * length, _MAX_POSITIONS)
        return length * positions // _READS_PER_UNIT


def pattern_weights(pattern: str) -> TextWeights:
    """Return the cost of a pattern; without any weight for usual patterns.

    A text of `[ab]*a[ab]{1000}c` is in a thousand states at once: 14 µs per character, measured.
    """
    states = expanded(pattern, lambda _: 1)
    ends_soon = _is_anchored(pattern) and not _is_unbounded(pattern)
    weights = TextWeights(0 if states <= _FEW_STATES or ends_soon else states * _STATE)
    choices, (once, again) = _choices(pattern), _scans(pattern)
    if choices:
        weights = weights._replace(**{f"steps_{min(choices, len(_STEPS))}": 1})
    return weights._replace(scans_1=once, scans_2=again)


def has_too_much_text(payload: Any, size: int, weights: TextWeights, limit: int) -> bool:
    """Return whether the texts of a payload, with the names of fields, cost more than `limit`.

    Takes 200 ns per value, and nothing if so few bytes (`size`) cannot.
    """
    if weights.of_size(size) <= limit:
        return False
    cost, left = 0, [payload]
    while left:
        value = left.pop()
        if isinstance(value, str):
            cost += weights.of_text(len(value) if value.isascii() else len(value.encode()))
        elif isinstance(value, dict):
            left += value
            left += value.values()
        elif isinstance(value, list):
            left += value
    return cost > limit


class _Part(NamedTuple):
    """A part of a pattern."""

    text: str
    #: It begins a group, or ends the group that began last.
    is_start: bool = False
    is_end: bool = False
    #: A reference to a group, a word boundary, or a possessive repetition.
    is_hard: bool = False
    is_behind_group: bool = False
    #: The number of choices of a repetition or an alternative, else 0.
    choices: int = 0


def _parts(pattern: str) -> Iterator[_Part]:
    depth, is_behind_group = 0, False
    for match in _PART.finditer(pattern):
        text = match[0]
        choices, is_start, is_end = 0, text[0] == "(" and text[-1] != ")", text == ")" and depth > 0
        if text[0] in "*+?|" or (text[0] == "{" and len(text) > 1):
            choices = _REPEATED_GROUP if is_behind_group and text != "|" else 1
        yield _Part(text, is_start, is_end, bool(_HARD.match(text)), is_behind_group, choices)
        depth += is_start - is_end
        is_behind_group = text == ")"


@dataclass(slots=True, kw_only=True)
class _Level:
    """A group as far as it is read, for `_scans`."""

    is_assertion: bool = False
    #: Choices before this place, and those before the last look-around, word boundary or reference.
    before: int = 0
    tried: int = 0
    is_hard: bool = False
    unbounded: int = 0
    #: Choices before the current alternative, and what that has.
    opened: int = 0
    is_branch_hard: bool = False
    branch_unbounded: int = 0
    #: The same of finished alternatives that are read as a whole.
    whole_unbounded: int = 0

    def add(self, unbounded: int, *, is_hard: bool) -> None:
        """Add a part of the current alternative."""
        self.unbounded += unbounded
        self.branch_unbounded += unbounded
        self.is_hard |= is_hard
        self.is_branch_hard |= is_hard

    def end_branch(self) -> None:
        """End an alternative."""
        if self.opened and not self.is_branch_hard:
            self.whole_unbounded += self.branch_unbounded
        self.is_branch_hard, self.branch_unbounded = False, 0


def _scans(pattern: str) -> tuple[int, int]:
    """Return how many repetitions without a bound read the rest of a text for one choice, and for several.

    They are within or behind a look-around, word boundary or reference that is tried again, or in another
    alternative. The place where a match begins is a choice, unless the pattern is anchored.
    """
    counts = [0, 0]
    start = int(not _is_anchored(pattern))
    levels, last = [_Level(before=start, opened=start)], _Level()
    for part in _parts(pattern):
        level = levels[-1]
        if part.is_start:
            is_assertion = part.text in _ASSERTIONS
            tried = level.before if is_assertion or part.text == "(?>" else level.tried
            levels.append(
                _Level(is_assertion=is_assertion, before=level.before, tried=tried, opened=level.before)
            )
        elif part.is_end:
            last = levels.pop()
            _close(levels[-1], last, counts)
        elif part.choices:
            tried = level.before if part.is_hard else level.tried
            if part.is_behind_group and last.is_hard:
                counts[1] += last.unbounded  # each repetition of the group tries them again
            if _UNBOUNDED.match(part.text):
                level.add(1, is_hard=False)
                if tried:
                    counts[tried > 1] += 1
            level.before += part.choices
            if part.text == "|":
                level.end_branch()
                level.opened = max(level.opened, 1)
        if part.is_hard:
            level.add(0, is_hard=True)
            level.tried = level.before
    _close(_Level(), levels[0], counts)
    times = _WITH_GROUPS if _CAPTURING.search(pattern) else 1
    return counts[0] * times, counts[1] * times


def _close(level: _Level, inner: _Level, counts: list[int]) -> None:
    """Add a group that ends; choices within a look-around are not tried again behind it."""
    inner.end_branch()
    if inner.is_hard:
        counts[inner.opened > 1] += inner.whole_unbounded
    level.add(inner.unbounded, is_hard=inner.is_hard or inner.is_assertion)
    if inner.is_assertion:
        level.tried = level.before
    else:
        level.before, level.tried = inner.before, inner.tried


def _choices(pattern: str) -> int:
    """Return the number of repetitions and alternatives that are tried again; a repeated group is several.

    Those behind the last look-around or reference are not tried again. Neither are those within a look-around
    without another one, which is an automaton.
    """
    groups, last = [_Group(pending=not _is_anchored(pattern))], _Group()
    for part in _parts(pattern):
        group = groups[-1]
        if part.is_start:
            groups.append(_Group(is_assertion=part.text in _ASSERTIONS))
        elif part.is_end:
            last = groups.pop()
            if last.is_hard or last.is_assertion:
                groups[-1].add_hard(last.again, last.pending if last.is_hard else 0)
            else:
                groups[-1].pending += last.pending
        elif part.is_hard:
            group.add_hard()
        elif part.is_behind_group and last.is_hard:
            group.again += part.choices
        else:
            group.pending += part.choices
    return groups[0].again


def expanded(pattern: str, weight: Callable[[str], int]) -> int:
    """Return the sum of the weights of a pattern's characters and classes, repetitions expanded."""
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text, low, high = token[0], token[1], token[3]
        if text == "(":
            groups.append(0)
            continue
        if text == ")" and len(groups) > 1:
            last = groups.pop()
        elif low is not None:
            grown = last * (max(int(low[:_DIGITS]), int((high or "0")[:_DIGITS])) - 1)
            last += grown
            groups[-1] += grown
            continue
        elif text in "*+?":
            continue
        else:
            last = weight(text)
        groups[-1] += last
    return sum(groups)


def is_backtracking(pattern: str) -> bool:
    """Return whether a pattern has look-around, word boundaries or references: it is no automaton."""
    return any(part.is_hard or part.text in _ASSERTIONS for part in _parts(pattern))


def _is_anchored(pattern: str) -> bool:
    """Return whether a match begins only where the text does: each alternative begins with `^`."""
    depth, is_first, is_behind_anchor = 0, True, False
    for part in _parts(pattern):
        is_optional = is_behind_anchor and part.choices > 0 and part.text != "|"
        if is_optional or (is_first and part.text != "^"):
            return False
        is_behind_anchor, is_first = is_first, part.text == "|" and not depth
        depth += part.is_start - part.is_end
    return not is_first


def _is_unbounded(pattern: str) -> bool:
    return any(token[0] in "*+" or (token[2] and not token[3]) for token in _TOKEN.finditer(pattern))
