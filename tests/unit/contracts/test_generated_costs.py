"""Generated schemas and events: no check takes much longer than its estimated cost.

The time is the processor's, of this thread, and is compared with calibrated work of the same run: a slow or
busy machine changes both.
"""

import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.contracts.json_schema import CompiledSchema, compile_schema
from tests.fixtures.calibration import calibrated
from tests.fixtures.examples import DERANDOMIZE, examples

pytestmark = pytest.mark.full

#: Evaluations that may take as long as the calibrated work: it takes 25 ms where one takes 5 to 20 ns.
PER_UNIT: Final = 500_000
#: Shorter checks are noise.
LEAST: Final = 0.5
#: What the calibrated work takes on a fast machine: it is done for suspects alone.
FAST_SECONDS: Final = 0.015

NAMES: Final = ["a", "b", "c", "items", "x1"]
PATTERNS: Final = [
    *("^a", "a+", "(a|b)*c", "[ab]*a[ab]{20}", "^[a-z0-9-]+$", "x*x*x*x*y", "a{1000}", r"\d{3,}", "(?i)abc"),
    *(r"(\w+) \1", "(?=.*a)b", "^(a?){8}a{8}$", "^(?!x).*$", "(?!x)[ab]*c", "(a*)*b", "(?<=a)b", "a*+c"),
    *(r"\b[a-z ]*c", r"(\w|a)*\bb", r"\Ba*c", r"(a+)\1c", "^.*(?=.*c)d", r"^(?=.*[A-Z])[A-Za-z\d]{8,}$"),
]
FORMATS: Final = [
    *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4"),
    *("ipv6", "uri", "uri-reference", "iri", "uri-template", "uuid", "json-pointer", "regex"),
]
NUMBERS: Final = [0, 1, -3, 0.5, 1.5, 1e22, 1e300, 5e-324, 2**63 + 1]
ITSELF: Final = "https://json-schema.org/draft/2020-12/schema"

SIMPLE: Final[dict[str, list[Any]]] = {
    "type": ["object", "array", "string", "integer", ["string", "null"]],
    "propertyNames": [*({"pattern": each} for each in PATTERNS), {"enum": NAMES}, {"format": "email"}],
    "uniqueItems": [True],
    "dependentRequired": [dict.fromkeys(NAMES[:n], NAMES) for n in (1, 3)],
    "pattern": PATTERNS,
    "format": FORMATS,
    **{bound: [0, 0.5, 1e300, 5e-324] for bound in ("minimum", "exclusiveMaximum")},
    "multipleOf": [1, 3, 0.5, 0.01, 1e-30, 1e10],
    **{bound: [0, 1, 3, 10**6] for bound in ("minLength", "maxItems", "minProperties")},
}
#: Their value is a subschema.
BELOW: Final = ["additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items", "not"]
LISTS: Final = ["allOf", "anyOf", "oneOf", "prefixItems"]
MAPS: Final = ["properties", "dependentSchemas"]
COMPOSED: Final = [*LISTS, *MAPS, "if", "contains"]
KEYWORDS: Final = [*SIMPLE, *BELOW, *COMPOSED, *COMPOSED, "patternProperties", "enum", "const", "pattern"]


class Generator:
    """Generates a schema with definitions, and events."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._definitions = [f"d{n}" for n in range(random.choice([0, 2, 4, 6]))]

    def schema(self) -> dict[str, Any]:
        """Return a schema whose definitions may refer to each other."""
        depths = (self._random.choice([1, 2]) for _ in self._definitions)
        definitions = {
            name: self._subschema(depth) for name, depth in zip(self._definitions, depths, strict=True)
        }
        return {**self._subschema(self._random.choice([1, 2, 3])), "$defs": definitions}

    def event(self, size: int) -> Any:
        """Return an event of about `size` bytes: one kind of value many times, or deep, or long."""
        random = self._random
        kinds = [
            self._value(3),
            "".join(random.choices("ab", k=random.choice([1, 16, 300]))),
            [[[]]],
            dict.fromkeys(NAMES, 1),
            random.choice(NUMBERS),
            {"a": {"a": {"b": [1, 2, "a"]}}, "items": [1, 1]},
        ]
        value = random.choice(kinds)
        times = max(size // (len(orjson.dumps(value)) + 9), 1)
        shapes: list[Callable[[], Any]] = [
            lambda: [value] * times,
            lambda: {f"{random.choice(['', 'a', 'x'])}{n}": value for n in range(times)},
            lambda: "".join(random.choices(["a", "b", "ab", " ", "é", "1"], k=size // 2)),
            lambda: "a" * size,
            lambda: dict.fromkeys(NAMES[:4], "a" * (size // 4)),
            lambda: dict.fromkeys(NAMES[:4], [value] * max(times // 4, 1)),
            lambda: self._nested([value] * max(times // 10, 1)),
            lambda: [[value] * 5] * max(times // 5, 1),
            lambda: [{random.choice(NAMES): value} for _ in range(times)],
            lambda: list(range(size // 6)),
            lambda: {"allOf": [{}] * (size // 3)},
        ]
        return random.choice(shapes)()

    def _nested(self, value: Any) -> Any:
        for _ in range(40):
            value = {self._random.choice(NAMES[:2]): value} if self._random.random() < 0.7 else [value]
        return value

    def _value(self, depth: int) -> Any:
        random = self._random
        simple = [None, True, "a", "ab", "", "2026-01-01", "x@y.example", "a" * 30, *NUMBERS]
        values: list[Any] = [random.choice(simple)]
        if depth:
            values.append([self._value(depth - 1) for _ in range(random.randrange(4))])
            values.append({random.choice(NAMES): self._value(depth - 1) for _ in range(random.randrange(4))})
        return random.choice(values)

    def _subschema(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"$ref": self._reference()} if self._random.random() < 0.2 else {}
        for _ in range(self._random.choice([1, 1, 2, 2, 3])):
            schema |= self._keyword(depth)
        return schema

    def _below(self, depth: int) -> Any:
        if depth:
            return self._subschema(depth - 1)
        return self._random.choice(
            [{}, {"type": "string"}, {"const": 1}, True, False, {"$ref": self._reference()}]
        )

    def _keyword(self, depth: int) -> dict[str, Any]:
        random = self._random
        keyword = random.choice(KEYWORDS)
        value: Any
        if keyword in LISTS:
            value = [self._below(depth) for _ in range(random.choice([1, 2, 3, 8]))]
        elif keyword in MAPS:
            value = {name: self._below(depth) for name in random.sample(NAMES, 2)}
        elif keyword == "patternProperties":
            value = {random.choice(PATTERNS): self._below(depth)}
        elif keyword == "enum":
            values = (self._value(2) for _ in range(random.choice([1, 3, 30])))
            value = [*{orjson.dumps(each): each for each in values}.values()]
        elif keyword == "const":
            value = self._value(2)
        elif keyword in SIMPLE:
            value = random.choice(SIMPLE[keyword])
        else:
            value = self._below(depth)
        return {keyword: value} | self._others(keyword, depth)

    def _others(self, keyword: str, depth: int) -> dict[str, Any]:
        """Return the keywords that a keyword needs."""
        if keyword == "if":
            return {each: self._below(depth) for each in ("then", "else")}
        if keyword == "contains":
            return {
                self._random.choice(["minContains", "maxContains"]): self._random.choice([0, 1, 3, 10**6])
            }
        return {}

    def _reference(self) -> str:
        return self._random.choice([*(f"#/$defs/{name}" for name in self._definitions), ITSELF])


def seconds(schema: CompiledSchema, payload: Any) -> float:
    began = time.thread_time()
    schema.is_valid(payload)
    return time.thread_time() - began


@given(st.integers(0, 2**63), st.sampled_from([3_000, 20_000, 100_000]))
@settings(
    max_examples=examples(600),
    deadline=None,
    derandomize=DERANDOMIZE,
    suppress_health_check=list(HealthCheck),
)
def test_no_check_takes_much_longer_than_its_estimate(seed: int, size: int) -> None:
    generator = Generator(Random(seed))
    try:
        schema = compile_schema(generator.schema())
    except ValueError:  # too costly, or no schema
        return
    for _ in range(4):
        payload = generator.event(min(size, schema.cost.max_bytes))
        payload_bytes = len(orjson.dumps(payload))
        if schema.cost.reason_against(payload, payload_bytes):
            continue
        allowed = LEAST + schema.cost.estimate(payload_bytes) / PER_UNIT
        if seconds(schema, payload) > allowed * FAST_SECONDS:
            assert seconds(schema, payload) < allowed * calibrated(), orjson.dumps(schema.document)
