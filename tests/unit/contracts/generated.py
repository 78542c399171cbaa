"""Random schemas, changes of them, and payloads: small, alike, and full of edges."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

NAMES: Final = "abc"
NUMBERS: Final = (-2, -1, 0, 1, 2, 3, -1.5, 0.0, 0.5, 1.0, 2.5)
TEXTS: Final = ("", "a", "ab", "abc", "2026-01-02", "0b7c4e1e-5f3a-4c68-9a53-0f1d0c2a9a11", "x@y.zz")
TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object", "object")
REFERENCES: Final = ("#", "#/$defs/one", "#/$defs/two", "#/properties/a", "#/$defs/none")
_DEPTH: Final = 3


class Generator:
    """Makes everything from one source of chance."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        one, some = self.chance.choice, self._some
        count = lambda _: self.chance.randrange(4)  # noqa: E731
        inner = lambda depth: self.schema(depth - 1)  # noqa: E731
        self._scalars: dict[str, Callable[[int], Any]] = {
            "type": lambda _: one(TYPES) if self.chance.random() < 0.7 else some(TYPES),
            "enum": lambda _: [self.value(2) for _ in range(self.chance.randint(1, 3))],
            "const": lambda _: self.value(2),
            **dict.fromkeys(
                ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), lambda _: one(NUMBERS)
            ),
            "multipleOf": lambda _: one((1, 2, 0.5)),
            **dict.fromkeys(("minLength", "maxLength"), count),
            "pattern": lambda _: one(("a", "^ab?$")),
            "format": lambda _: one(("date", "uuid", "email", "date-time", "int32")),
            "title": lambda _: "t",
        }
        self._others: dict[str, Callable[[int], Any]] = {
            "properties": lambda d: {name: inner(d) for name in some(NAMES)},
            "required": lambda _: some(NAMES),
            "additionalProperties": inner,
            "patternProperties": lambda d: {one(("^a", "b|c")): inner(d)},
            **dict.fromkeys(("minProperties", "maxProperties", "minItems", "maxItems"), count),
            "items": inner,
            "prefixItems": lambda d: [inner(d)],
            "uniqueItems": lambda _: one((True, False)),
            "contains": inner,
            "minContains": count,
            **dict.fromkeys(("anyOf", "oneOf", "allOf"), lambda d: [inner(d), inner(d)]),
            **dict.fromkeys(("not", "if", "then", "else", "propertyNames"), inner),
            "dependentRequired": lambda _: {one(NAMES): some(NAMES)},
        }

    def document(self) -> dict[str, Any]:
        """A schema with definitions that it may refer to."""
        return self._object(_DEPTH) | {"$defs": {name: self.schema(2) for name in ("one", "two")}}

    def schema(self, depth: int) -> Any:
        """A subschema."""
        draw = self.chance.random()
        if draw < 0.08:
            return self.chance.random() < 0.7
        if draw < 0.16:
            return {"$ref": self.chance.choice(REFERENCES)}
        return self._object(depth)

    def changed(self, value: Any) -> Any:
        """The same schema with a few changes: a keyword removed or added, a number changed."""
        if isinstance(value, dict):
            kept = {
                k: self.changed(v) for k, v in value.items() if k == "$defs" or self.chance.random() < 0.9
            }
            return kept | (self._keywords(self._scalars, 1, 1) if self.chance.random() < 0.05 else {})
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [self.changed(each) for each in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and self.chance.random() < 0.5:
            return max(value + self.chance.choice((-1, 0, 1)), 0)
        return value

    def value(self, depth: int) -> Any:
        """A payload, or a part of one."""
        kind = self.chance.randrange(8 if depth else 5)
        if kind < 2:
            return self.chance.choice(NUMBERS)
        if kind < 5:
            return self.chance.choice((*TEXTS, None, True, False))
        if kind == 5:
            return [self.value(depth - 1) for _ in range(self.chance.randrange(4))]
        return {name: self.value(depth - 1) for name in self._some(NAMES)}

    def _object(self, depth: int) -> dict[str, Any]:
        found = self._keywords(self._scalars, 0, 2)
        return found | (self._keywords(self._others, 0, 3, depth) if depth else {})

    def _keywords(
        self, of: dict[str, Callable[[int], Any]], least: int, most: int, depth: int = 0
    ) -> dict[str, Any]:
        names = self.chance.sample(list(of), self.chance.randint(least, most))
        return {name: of[name](depth) for name in names}

    def _some(self, of: Any) -> list[Any]:
        return self.chance.sample(sorted(set(of)), self.chance.randint(1, 3))
