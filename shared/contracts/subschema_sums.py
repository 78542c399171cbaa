"""Sums the costs of the subschemas that apply to one value of an event, by its level.

Subschemas apply to the same value over `$ref`, `allOf` and others, and to members by their names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from shared.contracts.schema_references import Node, References, TooCostlyError

#: Identities that no subschema has: of JSON Schema's own document, and of a `true` or `false`.
_UNKNOWN: Final = -1
_BOOLEAN: Final = -2
#: `unevaluatedProperties` evaluates its sibling keywords again, to find the evaluated fields (measured).
_UNEVALUATED: Final = 3
#: Maximum steps of the computation itself, 3 to 6 s in a thread, and the steps of copying a member.
_MAX_STEPS: Final = 6_000_000
_COPY: Final = 10
#: Sums are capped, because they may double with each reference.
_MAX_COST: Final = 10**12

_MAX_REFERENCES: Final = 200

IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
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
_NOTHING: Final[Places] = {}


class Closure(NamedTuple):
    """The subschemas that one of them applies: to the same value, so many times, and to its members."""

    in_place: tuple[int, ...]
    below: Places
    times: int = 1


class Subschemas:
    """The subschemas of a document by the value that they apply to; shared by all sums."""

    def __init__(self, root: Node, nodes: Mapping[int, Node], references: References) -> None:
        """`nodes`: every object of the document, by identity."""
        self.root = id(root)
        self._nodes = nodes
        self._references = references
        self._steps_left = _MAX_STEPS
        self._closures: dict[int, Closure] = {
            _UNKNOWN: Closure((), {_EVERY_MEMBER: Counter([_UNKNOWN])}),
            _BOOLEAN: Closure((), _NOTHING),
        }

    @property
    def has_unknown(self) -> bool:
        """Return whether a subschema that a sum has reached refers to JSON Schema's own document."""
        return any(_UNKNOWN in closure.in_place for closure in self._closures.values())

    def spend(self, steps: int) -> None:
        """Count these steps: the time may be the product of references and what they lead to.

        Raises:
            TooCostlyError: they are too many.
        """
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooCostlyError("the maximum cost of an event takes too long to compute: use fewer $ref")

    def closure(self, node: int, above: tuple[int, ...] = ()) -> Closure:
        """Return the subschemas that `node` applies to its own value, and all of the members.

        Subschemas that only refer to another one share its members: a document may have thousands of them.
        """
        known = self._closures.get(node)
        if known is not None:
            return known
        if node in above:
            raise TooCostlyError("a subschema refers to itself at the same value: that has no end")
        if len(above) > _MAX_REFERENCES:
            raise TooCostlyError(f"a subschema is reached over more than {_MAX_REFERENCES} others")
        schema = self._nodes[node]
        in_place = tuple(_UNKNOWN if each is None else id(each) for each in self._in_place(schema))
        parts = [_members(schema), *(self.closure(each, (*above, node)).below for each in in_place)]
        below = self._merged([each for each in parts if each])
        times = 1
        if any(key in schema for key in ("unevaluatedProperties", "unevaluatedItems")):
            times = _UNEVALUATED
            below = self._with_unevaluated(below)
        self._closures[node] = Closure(in_place, below, times)
        return self._closures[node]

    def _merged(self, parts: list[Places]) -> Places:
        """Return all members of the parts; a single part is shared."""
        if not parts[1:]:
            return parts[0] if parts else _NOTHING
        below: Places = {}
        for part in parts:
            for name, counted in part.items():
                self.spend(_COPY + len(counted))
                below.setdefault(name, Counter()).update(counted)
        return below

    def _with_unevaluated(self, below: Places) -> Places:
        """Return the members with the patterns for names, which `unevaluatedProperties` compares again."""
        every = below.get(_EVERY_MEMBER)
        if not every:
            return below
        self.spend(len(below))
        again = Counter({_BOOLEAN: (_UNEVALUATED - 1) * every.total()})
        return {**below, _EVERY_MEMBER: every + again}

    def _in_place(self, schema: Node) -> Iterator[Node | None]:
        """Yield the subschemas that apply to the same value; None for one in another document."""
        for key in IN_PLACE_LISTS:
            yield from (each for each in list_of(schema.get(key)) if isinstance(each, Mapping))
        for key in _IN_PLACE:
            if isinstance(schema.get(key), Mapping):
                yield schema[key]
        for key in _IN_PLACE_BY_NAME:
            yield from (each for each in map_of(schema.get(key)).values() if isinstance(each, Mapping))
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                yield from self._references.targets(schema, schema[key])


class Sums:
    """Sums of what subschemas cost, over all that apply to one value."""

    def __init__(self, subschemas: Subschemas, own: Mapping[int, int], *, unknown: int = 0) -> None:
        """`own`: the costs of subschemas' own keywords; `unknown`: that of JSON Schema's own document."""
        self._subschemas = subschemas
        self._own = own
        self._here = {_UNKNOWN: unknown, _BOOLEAN: int(unknown > 0)}
        self._known: dict[tuple[int, int], int] = {}

    def at(self, levels: int) -> int:
        """Return the maximum cost of a value this number of levels below the root."""
        return self._at(self._subschemas.root, levels)

    def _at(self, node: int, levels: int) -> int:
        """Return the maximum cost of a value this number of levels below the place of `node`."""
        closure = self._subschemas.closure(node)
        return self._below(closure.below, levels - 1) if levels else self._at_own_place(node)

    def _at_own_place(self, node: int) -> int:
        known = self._here.get(node)
        if known is None:
            in_place, _, times = self._subschemas.closure(node)
            known = (self._own[node] + sum(map(self._at_own_place, in_place))) * times
            self._here[node] = known = min(known, _MAX_COST)
        return known

    def _below(self, places: Places, levels: int) -> int:
        known = self._known.get((id(places), levels))
        if known is not None:
            return known
        self._subschemas.spend(len(places) + 1)
        # Subschemas for every member apply to named members too.
        every = self._sum(places.get(_EVERY_MEMBER, Counter()), levels)
        named = (self._sum(each, levels) for name, each in places.items() if name != _EVERY_MEMBER)
        self._known[id(places), levels] = total = min(every + max(named, default=0), _MAX_COST)
        return total

    def _sum(self, members: Counter[int], levels: int) -> int:
        self._subschemas.spend(len(members))
        return sum(times * self._at(each, levels) for each, times in members.items())


def _members(schema: Node) -> Places:
    below: Places = {}
    for name, each in map_of(schema.get("properties")).items():
        if isinstance(each, Mapping):
            below.setdefault(f".{name}", Counter())[id(each)] += 1
    every = [
        schema[key] for key in _MEMBERS if isinstance(schema.get(key), Mapping) or schema.get(key) is False
    ]
    # Each pattern is compared with each name.
    every += map_of(schema.get("patternProperties")).values()
    for key in ("items", "prefixItems"):
        for index, each in enumerate(list_of(schema.get(key))):
            if isinstance(each, Mapping):
                below.setdefault(f"[{index}", Counter())[id(each)] += 1
    if every:
        below[_EVERY_MEMBER] = Counter(id(each) if isinstance(each, Mapping) else _BOOLEAN for each in every)
    return below


def list_of(value: Any) -> list[Any]:
    """Return a keyword's list; empty if it is none."""
    return value if isinstance(value, list) else []


def map_of(value: Any) -> Mapping[str, Any]:
    """Return a keyword's object; empty if it is none."""
    return value if isinstance(value, Mapping) else {}
