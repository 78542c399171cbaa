"""Computes the maximum cost of checking an event against a JSON Schema.

A validator evaluates each subschema as often as it is referenced. A chain of 34 definitions that each refer
to the next one twice is 2 KB long and needs 2^34 evaluations of one value, during which the gateway
answers no request. The unit is one evaluation of a keyword: 5 to 20 ns with jsonschema-rs 0.60, measured.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, Final

from shared.contracts.schema_references import Node, References, TooCostlyError

#: Maximum evaluations of one value of an event, over all subschemas that apply to it.
MAX_PER_VALUE: Final = 10_000
#: Maximum evaluations of one event: 0.3 to 1 s.
MAX_PER_EVENT: Final = 50_000_000
#: The gateway rejects events that are nested deeper (shared/strict_json.py).
_LEVELS: Final = 64
#: Maximum faults of one event that the library may build at once.
_MAX_FAULTS: Final = 1_000_000
#: A value has at least two bytes of JSON: `0,`.
_VALUE_BYTES: Final = 2
#: A reference to JSON Schema's own document, which the library includes: fewer keywords apply to a value.
_UNKNOWN_REFERENCE: Final = 100
#: `unevaluatedProperties` evaluates its sibling keywords again, to find the evaluated fields (measured).
_UNEVALUATED: Final = 3
#: A state of a pattern costs about 30 ns per character if a text is in many states at once.
_STATE: Final = 3
#: A `multipleOf` with a fraction computes with numbers of any length: 3 to 9 µs per value, measured.
_FRACTION: Final = 400
#: The same below 1e-20: 60 to 160 µs.
_TINY_FRACTION: Final = 8_000
_TINY: Final = 1e-20
#: Patterns with fewer states become small automata, which read 1 MB in milliseconds.
_FEW_STATES: Final = 16

_MAX_REFERENCES: Final = 200

_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE: Final = ("not", "if", "then", "else")
_IN_PLACE_BY_NAME: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
#: Applied to every member of an object or an array.
_MEMBERS: Final = (
    "additionalProperties", "propertyNames", "unevaluatedProperties",
    "items", "additionalItems", "contains", "unevaluatedItems",
)  # fmt: skip
_EVERY_MEMBER: Final = ""

#: The subschemas that apply to one value, by identity, with the number of evaluations of each.
Places = dict[str, Counter[int]]


class SchemaCost:
    """The cost of a schema, whose document must not change afterwards."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compute it; takes time in proportion to the schema's size.

        Raises:
            TooCostlyError: one value could need more than `MAX_PER_VALUE` evaluations.
        """
        self._root = schema
        self._nodes: dict[int, Node] = {}
        self._references = References(schema, self._nodes)
        self._closures: dict[int, tuple[int, Places]] = {}
        self._known: dict[tuple[int, int], int] = {}
        by_level = (self._at(id(schema), level) for level in range(_LEVELS))
        # An event is one value with many below it.
        self._whole, *below = takewhile(bool, by_level)
        self._per_value = max(below, default=0)
        self._missing = max((len(_list(each.get("required"))) for each in self._nodes.values()), default=0)
        self._per_character = sum(map(_pattern_cost, self._patterns()))
        #: Whether numbers beyond the usual range take 100 µs each (shared/contracts/long_numbers.py).
        self.has_fractions = any(_fraction_cost(each) for each in self._nodes.values())

    @property
    def max_bytes(self) -> int:
        """Return the size of the largest event whose check stays within `MAX_PER_EVENT`."""
        return MAX_PER_EVENT // (self._per_value // _VALUE_BYTES + self._per_character + 1)

    @property
    def max_bytes_for_all_faults(self) -> int:
        """Return the size of the largest event with all faults listed: each is an object in memory."""
        faults = self._whole + self._per_value + self._missing
        return _MAX_FAULTS * _VALUE_BYTES // (faults + 1)

    def _at(self, node: int, levels: int) -> int:
        """Return the maximum evaluations of a value this number of levels below the place of `node`."""
        known = self._known.get((node, levels))
        if known is not None:
            return known
        here, below = self._closure(node)
        if levels:
            # Subschemas for every member apply to named members too.
            every = self._sum(below.get(_EVERY_MEMBER, Counter()), levels - 1)
            named = (self._sum(below[name], levels - 1) for name in below if name != _EVERY_MEMBER)
            here = every + max(named, default=0)
        if here > MAX_PER_VALUE:
            raise TooCostlyError(
                f"one value of an event could be checked more than {MAX_PER_VALUE:,} times: subschemas that "
                "apply to the same value multiply where they refer to common ones (allOf, anyOf, oneOf, "
                "$ref), or a schema refers to itself from two of them. Refer to each only once"
            )
        self._known[node, levels] = here
        return here

    def _sum(self, members: Counter[int], levels: int) -> int:
        return sum(times * self._at(each, levels) for each, times in members.items())

    def _closure(self, node: int, above: tuple[int, ...] = ()) -> tuple[int, Places]:
        """Return the cost of evaluating `node` at its own place, and the subschemas of its members."""
        known = self._closures.get(node)
        if known is not None:
            return known
        if node in above:
            raise TooCostlyError("a subschema refers to itself at the same value: that has no end")
        if len(above) > _MAX_REFERENCES:
            raise TooCostlyError(f"a subschema is reached over more than {_MAX_REFERENCES} others")
        schema = self._nodes[node]
        cost, below = _own_cost(schema), _members(schema)
        for each in self._in_place(schema):
            inner, members = (
                (_UNKNOWN_REFERENCE, {}) if each is None else self._closure(id(each), (*above, node))
            )
            cost += inner
            for name, counted in members.items():
                below.setdefault(name, Counter()).update(counted)
        if any(key in schema for key in ("unevaluatedProperties", "unevaluatedItems")):
            cost *= _UNEVALUATED
        self._closures[node] = min(cost, 2 * MAX_PER_VALUE), below
        return self._closures[node]

    def _in_place(self, schema: Node) -> Iterator[Node | None]:
        """Yield the subschemas that apply to the same value; None for one in another document."""
        for key in _IN_PLACE_LISTS:
            yield from (each for each in _list(schema.get(key)) if isinstance(each, Mapping))
        for key in _IN_PLACE:
            if isinstance(schema.get(key), Mapping):
                yield schema[key]
        for key in _IN_PLACE_BY_NAME:
            yield from (each for each in _map(schema.get(key)).values() if isinstance(each, Mapping))
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                yield from self._references.targets(schema, schema[key])

    def _patterns(self) -> Iterator[str]:
        for each in self._nodes.values():
            if isinstance(each.get("pattern"), str):
                yield each["pattern"]
            yield from _map(each.get("patternProperties"))


def _own_cost(schema: Node) -> int:
    listed = schema.get("enum", [schema.get("const")])
    # Objects and arrays are compared one by one, other values by their hash.
    compared = sum(20 for each in _list(listed) if isinstance(each, list | dict))
    return 1 + len(schema) + compared + _fraction_cost(schema)


def _fraction_cost(schema: Node) -> int:
    divisor = schema.get("multipleOf")
    if not isinstance(divisor, float) or divisor.is_integer():
        return 0
    return _TINY_FRACTION if divisor < _TINY else _FRACTION


def _members(schema: Node) -> Places:
    below: Places = {}
    for name, each in _map(schema.get("properties")).items():
        if isinstance(each, Mapping):
            below.setdefault(f".{name}", Counter())[id(each)] += 1
    every = [schema[key] for key in _MEMBERS if isinstance(schema.get(key), Mapping)]
    every += [each for each in _map(schema.get("patternProperties")).values() if isinstance(each, Mapping)]
    for key in ("items", "prefixItems"):
        for index, each in enumerate(_list(schema.get(key))):
            if isinstance(each, Mapping):
                below.setdefault(f"[{index}", Counter())[id(each)] += 1
    if every:
        below[_EVERY_MEMBER] = Counter(map(id, every))
    return below


def _pattern_cost(pattern: str) -> int:
    """Return the cost of a pattern per character of an event; 0 for usual patterns.

    A text of `[ab]*a[ab]{1000}c` is in a thousand states at once: 14 µs per character, measured.
    """
    states, unbounded = _states(pattern)
    ends_soon = pattern.startswith("^") and not unbounded
    return 0 if states <= _FEW_STATES or ends_soon else states * _STATE


_TOKEN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:(,)(\d*))?\}|.", re.DOTALL)


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


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
