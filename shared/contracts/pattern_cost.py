"""Computes the cost of a pattern for each character of a text, in the unit of `schema_cost`.

Usual patterns become automata that read 1 MB in milliseconds. Two kinds take longer: many states at once,
and look-around or references to groups, for which the validator tries repetitions again (backtracking).
"""

import re
from dataclasses import dataclass
from typing import Final

#: A state of a pattern costs about 30 ns per character if a text is in many states at once.
_STATE: Final = 3
#: Patterns with fewer states become small automata.
_FEW_STATES: Final = 16
#: The cost of one step of backtracking: 20 to 80 ns, measured.
_STEP: Final = 4
#: Steps per character by the number of choices: a text of n characters takes n, n², n³, or 2^n steps. 2^n
#: reaches the limit of 10,000 steps (shared/contracts/json_schema.py) after 16 bytes.
_STEPS: Final = (0, 1, 100, 460, 625)
_TOKEN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:(,)(\d*))?\}|.", re.DOTALL)
#: The same with the beginnings of groups, and lazy and possessive repetitions.
_PART: Final = re.compile(
    r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?(?:<?[=!]|P?<\w+>|[a-z-]*[:>)])|(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?|.",
    re.DOTALL,
)
_ASSERTIONS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_REFERENCE: Final = re.compile(r"\\[1-9k]")
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


def pattern_cost(pattern: str) -> int:
    """Return the cost of a pattern per character of an event; 0 for usual patterns.

    A text of `[ab]*a[ab]{1000}c` is in a thousand states at once: 14 µs per character, measured.
    """
    states, unbounded = _states(pattern)
    ends_soon = pattern.startswith("^") and not unbounded
    automaton = 0 if states <= _FEW_STATES or ends_soon else states * _STATE
    return automaton + _STEPS[min(_choices(pattern), len(_STEPS) - 1)] * _STEP


def _choices(pattern: str) -> int:
    """Return the number of repetitions and alternatives that are tried again; a repeated group is several.

    Those behind the last look-around or reference are not tried again. Neither are those within a look-around
    without another one, which is an automaton.
    """
    groups, last = [_Group(pending=not pattern.startswith("^"))], _Group()
    is_behind_group = False
    for part in _PART.finditer(pattern):
        text, group = part[0], groups[-1]
        if text[0] == "(" and text[-1] != ")":
            groups.append(_Group(is_assertion=text in _ASSERTIONS))
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            if last.is_hard or last.is_assertion:
                groups[-1].add_hard(last.again, last.pending if last.is_hard else 0)
            else:
                groups[-1].pending += last.pending
        elif _REFERENCE.match(text):
            group.add_hard()
        elif text[0] in "*+?|" or (text[0] == "{" and len(text) > 1):
            choices = _REPEATED_GROUP if is_behind_group and text != "|" else 1
            if is_behind_group and last.is_hard:
                group.again += choices
            else:
                group.pending += choices
        is_behind_group = text == ")"
    return groups[0].again


def _states(pattern: str) -> tuple[int, bool]:
    """Return the approximate number of states, repetitions expanded, and whether one is unbounded."""
    groups, last, unbounded = [0], 0, False
    for token in _TOKEN.finditer(pattern):
        text, low, comma, high = token[0], token[1], token[2], token[3]
        if text == "(":
            groups.append(0)
            continue
        if text == ")" and len(groups) > 1:
            last = groups.pop()
        elif low is not None:
            unbounded |= bool(comma and not high)
            groups[-1] += last * (max(int(low), int(high or 0)) - 1)
            continue
        elif text in "*+":
            unbounded = True
            continue
        else:
            last = 1
        groups[-1] += last
    return sum(groups), unbounded
