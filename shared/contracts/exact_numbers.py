"""Computes how long a schema takes for the numbers of an event, which the validator compares exactly.

jsonschema-rs compares a number with a fraction as a ratio of integers. Integers of 64 bits take a few
nanoseconds, 0.5 takes 1 to 5 µs, and 5e-324, a ratio of 1,074 bits, takes 100 µs: an event of 900 KB has
150,000 of them. `uniqueItems` compares each two of up to 15 items, and each two integers above 2^63.
Measured with jsonschema-rs 0.60, in the unit of `schema_cost`.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum, auto
from typing import Any, Final, NamedTuple

_LARGE: Final = 1e50
_SMALL: Final = 1e-50
_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**63 - 1
#: Maximum integers above 2^63 in an event with `uniqueItems`: about half a second.
_MAX_LONG_INTEGERS: Final = 500
_LONG_INTEGER_BYTES: Final = len("9223372036854775808,")
#: The cost of comparing such integers, by the square of their number.
_PAIR: Final = 100
#: Bytes of the shortest number of each kind with its comma.
_INTEGER_BYTES: Final = len("0,")
_FRACTION_BYTES: Final = len("0.5,")
_LONG_BYTES: Final = len("1e99,")
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


class _Kind(IntEnum):
    """Numbers by the time that a comparison takes."""

    INTEGER = 0
    #: It has a fraction or an exponent, or is an integer above 2^63.
    FRACTION = auto()
    LONG = auto()


class Weights(NamedTuple):
    """The cost of a number of each kind."""

    integer: int = 0
    fraction: int = 0
    long: int = 0

    def plus(self, other: "Weights") -> "Weights":
        """Return the sum."""
        return Weights(*(a + b for a, b in zip(self, other, strict=True)))

    def of_size(self, size: int) -> int:
        """Return the maximum cost of all numbers in an event of this size in bytes."""
        integer, fraction, long = self
        return max(
            integer * size // _INTEGER_BYTES, fraction * size // _FRACTION_BYTES, long * size // _LONG_BYTES
        )


#: The cost of one comparison: with a bound, or with a number in `const` or `enum` by its own kind.
_WITH_BOUND: Final = Weights(35, 50, 4_000)
_WITH_WHOLE_BOUND: Final = Weights(10, 35, 120)
_WITH: Final = {
    _Kind.INTEGER: Weights(15, 250, 5_000),
    _Kind.FRACTION: Weights(270, 250, 5_500),
    _Kind.LONG: Weights(4_000, 4_000, 5_500),
}
_WITH_OTHER_ITEMS: Final = Weights(0, 500, 17_000)
#: A `multipleOf` with a fraction; numbers that are not long have a cost in `schema_cost`.
_DIVIDED: Final = Weights(0, 0, 10_000)
_DIVIDED_WHOLE: Final = Weights(15, 35, 100)


def weights_of(schema: Mapping[str, Any]) -> Weights:
    """Return the cost of a number at the place of this subschema, or below it, by its own keywords."""
    total = Weights()
    for key in BOUNDS:
        bound = schema.get(key)
        if isinstance(bound, float):
            total = total.plus(_WITH_WHOLE_BOUND if bound.is_integer() else _WITH_BOUND)
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    listed = listed if isinstance(listed, list) else []
    # The validator looks integers up in a set of nothing but integers, unless there is only one.
    is_set = len(listed) > 1 and all(_kind(each) is _Kind.INTEGER for each in listed)
    for kind in _kinds(listed):
        total = total.plus(_WITH[kind]._replace(integer=0) if is_set else _WITH[kind])
    divisor = schema.get("multipleOf")
    if isinstance(divisor, float):
        total = total.plus(_DIVIDED_WHOLE if divisor.is_integer() else _DIVIDED)
    return total.plus(_WITH_OTHER_ITEMS) if schema.get("uniqueItems") is True else total


def cost_of_numbers(size: int, weights: Weights, *, has_unique: bool) -> int:
    """Return the maximum cost of the numbers in a payload of this size in bytes.

    `has_unique`: whether integers above 2^63 may be compared with each other.
    """
    long_integers = min(size // _LONG_INTEGER_BYTES, _MAX_LONG_INTEGERS) if has_unique else 0
    return weights.of_size(size) + long_integers**2 * _PAIR


def is_too_costly(payload: Any, size: int, weights: Weights, limit: int, *, has_unique: bool) -> bool:
    """Return whether the numbers of a payload of this size in bytes cost more than `limit`.

    `has_unique`: whether integers above 2^63 may be compared with each other. Takes 100 ns per value, and
    nothing if so few bytes cannot have as many numbers.
    """
    is_full = size > _MAX_LONG_INTEGERS * _LONG_INTEGER_BYTES
    if weights.of_size(size) <= limit and not (has_unique and is_full):
        return False
    counts, long_integers = [0, 0, 0], 0
    left = [payload]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif (kind := _kind(value)) is not None:
            counts[kind] += 1
            long_integers += kind is not _Kind.INTEGER and isinstance(value, int)
    if has_unique and long_integers > _MAX_LONG_INTEGERS:
        return True
    return sum(count * weight for count, weight in zip(counts, weights, strict=True)) > limit


def _kinds(values: Iterable[Any]) -> Iterator[_Kind]:
    left = list(values)
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif (kind := _kind(value)) is not None:
            yield kind


def _kind(value: Any) -> _Kind | None:
    """Return the kind of a number, or None of another value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return _Kind.INTEGER if _MIN_INTEGER <= value <= _MAX_INTEGER else _Kind.FRACTION
    return _Kind.FRACTION if value == 0 or _SMALL < abs(value) < _LARGE else _Kind.LONG
