"""Computes the maximum cost of checking an event against a JSON Schema.

A validator evaluates each subschema as often as it is referenced. A chain of 34 definitions that each refer
to the next one twice is 2 KB long and needs 2^34 evaluations of one value, during which the gateway
answers no request. The unit is one evaluation of a keyword: 5 to 20 ns with jsonschema-rs 0.60, measured.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import takewhile
from typing import Any, Final, TypeVar

import orjson

from shared.contracts.exact_numbers import BOUNDS, Weights, cost_of_numbers, is_too_costly, weights_of
from shared.contracts.pattern_cost import TextWeights, has_too_much_text, pattern_weights
from shared.contracts.schema_references import Node, References, TooCostlyError
from shared.contracts.subschema_sums import IN_PLACE_LISTS, Subschemas, Sums, list_of, map_of

T = TypeVar("T")

#: Maximum evaluations of one value of an event, over all subschemas that apply to it.
MAX_PER_VALUE: Final = 10_000
#: Maximum evaluations of one event: 0.3 to 1 s.
MAX_PER_EVENT: Final = 50_000_000
#: The gateway rejects events that are nested deeper (shared/strict_json.py).
_LEVELS: Final = 64
#: Maximum faults of one event that the library may build at once: 13 µs and 1.5 KB each, measured.
_MAX_FAULTS: Final = 50_000
#: Maximum bytes of their texts, which repeat lists of values and constants.
_MAX_FAULT_BYTES: Final = 20_000_000
#: Maximum copies of values in them: 0.5 µs each, measured.
_MAX_COPIES: Final = 1_000_000
#: A value has at least two bytes of JSON: `0,`.
_VALUE_BYTES: Final = 2
#: A reference to JSON Schema's own document, which the library includes: fewer keywords apply to a value, and
#: to each of its members.
_UNKNOWN_REFERENCE: Final = 100
#: A `multipleOf` with a fraction computes with numbers of any length: 3 to 9 µs per value, measured.
_FRACTION: Final = 400
#: The same below 1e-20: 60 to 160 µs.
_TINY_FRACTION: Final = 8_000
_TINY: Final = 1e-20
#: A bound or divisor that is an integer: 10 ns for integers, but 20 to 750 ns for other numbers.
_WHOLE: Final = 10
#: `uniqueItems` compares each two of up to 15 items with all that is within them.
_UNIQUE: Final = 5

#: Keywords whose fields are looked up one by one in each object: 50 to 150 ns, measured.
_BY_FIELD: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_DEPENDENT: Final = 5
#: Formats that take about 100 ns per character; the others take less than 30 ns.
_FORMATS: Final = {"idn-hostname": 10, "idn-email": 10, "regex": 10}
#: In older drafts a text is parsed as JSON: 50 ns per character.
_CONTENT: Final = 5
#: Keywords that read a whole text, each time that they apply to it.
_OF_TEXT: Final = frozenset(
    {"pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"}
)
#: Keywords that look up names of an object, 50 to 110 ns each, and lists of subschemas, 16 ns per item.
#: The unit is a byte of the members.
_OF_MEMBERS: Final = {
    **dict.fromkeys(("required", "properties", "dependentRequired", "dependencies"), 2),
    **dict.fromkeys(("prefixItems", "items"), 1),
}
#: The bytes that count of a member with a long name or value.
_MEMBER_BYTES: Final = len('"":0,')
#: Keywords without faults of their own, and those whose value is in the text or path of a fault.
_FAULTLESS: Final = frozenset(
    {"properties", "items", "allOf", "$ref", "if", "then", "else", "$defs", "definitions", "$schema"}
    | {"title", "description", "examples", "default"}
)
_IN_FAULTS: Final = (
    *("enum", "const", "not", "pattern", "format", "required", "dependentRequired", "dependencies"),
    *("patternProperties", "dependentSchemas"),
)
_USUAL_FAULT_BYTES: Final = 500


class SchemaCost:
    """The cost of a schema, whose document must not change afterwards."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compute the cost, in time proportional to the schema's size.

        Raises:
            TooCostlyError: one value could need more than `MAX_PER_VALUE` evaluations.
        """
        self._nodes: dict[int, Node] = {}
        self._subschemas = Subschemas(schema, self._nodes, References(schema, self._nodes))
        evaluations = Sums(self._subschemas, self._of_each(_own_cost), unknown=_UNKNOWN_REFERENCE)
        by_level = (_bounded(evaluations.at(level)) for level in range(_LEVELS))
        # An event is one value with many below it.
        self._whole, *below = takewhile(bool, by_level)
        self._per_value = max(below, default=0)
        #: Deeper values have no subschemas.
        self._levels = len(below) + 1
        faults = Sums(self._subschemas, self._of_each(_fault_count), unknown=_UNKNOWN_REFERENCE)
        self._whole_faults, *faults_below = (faults.at(level) for level in range(self._levels))
        self._faults = max(faults_below, default=0)
        self._fault_bytes = self._highest(self._of_each(_fault_bytes))
        self._has_names = any("propertyNames" in each for each in self._nodes.values())
        #: Whether one fault may contain many others: those of each alternative.
        self.has_alternatives = self._subschemas.has_unknown or any(
            key in each for each in self._nodes.values() for key in ("anyOf", "oneOf")
        )
        self._texts = TextWeights(*self._highest_of_each(_text_weights))
        # The payload itself may be one long text, or have all members of the event.
        self._of_text, self._of_members = (
            Sums(self._subschemas, self._of_each(own)).at(0) for own in (_text_cost, _members_cost)
        )
        unique = self._highest(self._of_each(_unique_cost))
        self._has_unique = unique > 0
        self._weights = Weights(*self._highest_of_each(weights_of))
        # Usual schemas have neither: this saves microseconds for each event.
        self._has_numbers = self._has_unique or any(self._weights)
        self._has_texts = any(self._texts[1:])
        self._per_byte = (self._per_value + unique) // _VALUE_BYTES + self._texts.automaton + 1
        #: The size of the largest event whose check stays within `MAX_PER_EVENT`.
        self.max_bytes = MAX_PER_EVENT // self._per_byte
        del self._subschemas, self._nodes  # up to 100 MB

    def estimate(self, size: int) -> int:
        """Return the maximum cost of checking an event of this size that `reason_against` accepts."""
        cost = size * (self._per_byte + max(self._of_text, self._of_members))
        if self._has_numbers:
            cost += cost_of_numbers(size, self._weights, has_unique=self._has_unique)
        if self._has_texts:
            cost += self._texts.of_size(size)
        return min(cost, MAX_PER_EVENT)

    def has_many_faults(self, payload: Any, size: int) -> bool:
        """Return whether an event of this size in bytes may have more faults than can be built quickly.

        Takes 100 ns per value, and nothing if so few bytes cannot have as many values.
        """
        values = size // _VALUE_BYTES + 1
        is_possible = self._may_have_many_faults(values, values * _LEVELS)
        return is_possible and self._may_have_many_faults(*_counts(payload))

    def _may_have_many_faults(self, values: int, copies: int) -> bool:
        faults = self._whole_faults + self._faults * values
        if self._has_names:  # a fault of each name has a copy of the whole object
            copies += values * values
        return (
            faults > _MAX_FAULTS
            or self._fault_bytes * values > _MAX_FAULT_BYTES
            or max(self._whole_faults, self._faults) * copies > _MAX_COPIES
        )

    def reason_against(self, payload: Any, size: int) -> str:
        """Return why the check of an event of this size in bytes could take too long; empty if it cannot."""
        if size > self.max_bytes:
            limit = f"the limit of this type's schema is {self.max_bytes}"
            return f"{size} bytes; {limit}, because each value is checked often"
        if self._cost_of_top(payload, size) > MAX_PER_EVENT:
            return f"{size} bytes are too many for this type's schema: it checks the whole payload often"
        if self._has_numbers and is_too_costly(
            payload, size, self._weights, MAX_PER_EVENT, has_unique=self._has_unique
        ):
            return (
                "comparing its numbers with this type's schema could take too long: send fewer numbers that "
                "have a fraction, are beyond 1e50 or below 1e-50, or are integers above 2^63"
            )
        if self._has_texts and has_too_much_text(payload, size, self._texts, MAX_PER_EVENT):
            return (
                "comparing its texts with this type's patterns could take too long: send fewer or shorter "
                "texts, or begin the patterns with ^ and repeat less before (?=, (?!, \\b and references"
            )
        return ""

    def _cost_of_top(self, payload: Any, size: int) -> int:
        """Return the cost of the keywords whose time depends on the length of the payload itself."""
        if isinstance(payload, str):
            return size * self._of_text
        members = len(payload) if isinstance(payload, dict | list) else 0
        return min(members * _MEMBER_BYTES, size) * self._of_members

    def _of_each(self, own: Callable[[Node], T]) -> dict[int, T]:
        """Return what `own` returns for each subschema, by identity."""
        return {id_: own(each) for id_, each in self._nodes.items()}

    def _highest_of_each(self, own: Callable[[Node], Sequence[int]]) -> list[int]:
        """Return the maximum sum of each weight that `own` returns."""
        ids, weights = zip(*self._of_each(own).items(), strict=True)
        return [self._highest(dict(zip(ids, of_kind, strict=True))) for of_kind in zip(*weights, strict=True)]

    def _highest(self, costs: Mapping[int, int]) -> int:
        """Return the maximum sum of `costs` over the subschemas of one value."""
        if not any(costs.values()):
            return 0
        sums = Sums(self._subschemas, costs)
        return max(sums.at(level) for level in range(self._levels))


def _bounded(cost: int) -> int:
    if cost > MAX_PER_VALUE:
        raise TooCostlyError(
            f"one value of an event could be checked more than {MAX_PER_VALUE:,} times: subschemas that "
            "apply to the same value multiply where they refer to common ones (allOf, anyOf, oneOf, "
            "$ref), or a schema refers to itself from two of them; fields of dependentSchemas and the values "
            "of an enum with two types are compared one by one. Refer to each only once, and list fewer"
        )
    return cost


def _own_cost(schema: Node) -> int:
    listed = list_of(schema.get("enum", [schema.get("const")]))
    # Objects and arrays are compared one by one; other values by their hash, unless two types are listed.
    compared = sum(20 for each in listed if isinstance(each, list | dict))
    if len({type(each) for each in listed if each is not None and not isinstance(each, bool)}) > 1:
        compared += len(listed)
    dependent = sum(len(map_of(schema.get(key))) for key in _BY_FIELD)
    whole = sum(isinstance(schema.get(key), int) for key in (*BOUNDS, "multipleOf"))
    return (
        1
        + len(schema)
        + _booleans(schema)
        + compared
        + dependent * _DEPENDENT
        + whole * _WHOLE
        + _slow_text_cost(schema)
        + _fraction_cost(schema)
    )


def _text_cost(schema: Node) -> int:
    """Return the cost of a character, by a subschema's own keywords."""
    return len(schema.keys() & _OF_TEXT) + _slow_text_cost(schema)


def _slow_text_cost(schema: Node) -> int:
    """Return the cost of a character by keywords that parse a text."""
    format_ = schema.get("format")
    of_format = _FORMATS.get(format_, 0) if isinstance(format_, str) else 0
    return of_format + _CONTENT * ("contentMediaType" in schema)


def _members_cost(schema: Node) -> int:
    """Return the cost of a byte of an object's or array's members, by a subschema's own keywords."""
    return sum(_OF_MEMBERS.get(key, 0) for key in schema)


def _booleans(schema: Node) -> int:
    """Return the number of `true` and `false` that apply to the same value."""
    return sum(isinstance(each, bool) for key in IN_PLACE_LISTS for each in list_of(schema.get(key)))


def _fraction_cost(schema: Node) -> int:
    divisor = schema.get("multipleOf")
    if not isinstance(divisor, float) or divisor.is_integer():
        return 0
    return _TINY_FRACTION if divisor < _TINY else _FRACTION


def _unique_cost(schema: Node) -> int:
    return _UNIQUE if schema.get("uniqueItems") is True else 0


def _fault_count(schema: Node) -> int:
    """Return the maximum number of faults by a subschema's own keywords."""
    names = [list_of(schema.get("required"))]
    names += (list_of(each) for key in _BY_FIELD for each in map_of(schema.get(key)).values())
    return len(schema.keys() - _FAULTLESS) + _booleans(schema) + sum(map(len, names))


def _fault_bytes(schema: Node) -> int:
    """Return the size of the texts in the faults by a subschema's own keywords; usual ones do not count."""
    size = sum(len(orjson.dumps(schema[key])) for key in _IN_FAULTS if key in schema)
    return size if size > _USUAL_FAULT_BYTES else 0


def _counts(payload: Any) -> tuple[int, int]:
    """Return the number of values, and of their copies if each value has a copy of all that is within it."""
    values = copies = 0
    left = [(payload, 1)]
    while left:
        value, level = left.pop()
        values += 1
        copies += level
        if isinstance(value, dict):
            left += ((each, level + 1) for each in value.values())
        elif isinstance(value, list):
            left += ((each, level + 1) for each in value)
    return values, copies


def _text_weights(schema: Node) -> TextWeights:
    """Return the cost of a subschema's patterns."""
    pattern = schema.get("pattern")
    patterns = [*map_of(schema.get("patternProperties")), *([pattern] if isinstance(pattern, str) else [])]
    return reduce(TextWeights.plus, map(pattern_weights, patterns), TextWeights())
