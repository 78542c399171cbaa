"""Checks whether a new schema accepts every payload that the old one accepted, and where not.

The comparison is our own, because existing ones let an added `format` pass, do not support recursion, or
report an optional field as a break. It follows the common keywords, and reports *undecided* for all
others: it never reports an incompatible schema as compatible (docs/adr/0040-schema-compatibility.md).

Its time is bounded for every input: it runs no pattern, fetches nothing, and does not recurse.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from shared.contracts.json_values import fault_of, text_of
from shared.contracts.keywords import is_open, kinds_of, rules_of
from shared.contracts.local_refs import draft_of, has_own_bases, resolve
from shared.contracts.pair import Finding, Kind, Pair
from shared.contracts.rules import evaluate, evaluate_listed

Mode = Literal["backward", "full", "none"]
#: Maximum pairs of subschemas per comparison, including those of alternatives.
_MAX_PAIRS: Final = 20_000
_MAX_NESTED: Final = 4
#: Cost in pairs of a nested comparison: alternatives multiply, while places of a payload add up.
_NESTED_COST: Final = 10
#: Values of lists (enum, required) that cost as much as one pair: 10 to 30 µs each, measured.
_VALUES_PER_PAIR: Final = 4


class Budget:
    """The budget of a comparison, which ends it before it takes too long."""

    def __init__(self) -> None:
        self._left = _MAX_PAIRS

    def spend(self, pairs: int) -> bool:
        """Spend this part of the budget; return False if it is used up."""
        self._left -= pairs
        return self._left >= 0


def findings(old: object, new: object, mode: Mode = "backward") -> list[Finding]:
    """Return the incompatibilities of the change from `old` to `new`; empty if it is compatible.

    `full`: also payloads that the new schema accepts and the old one does not.
    """
    if mode == "none":
        return []
    found = _backward(old, new)
    if mode == "full":
        back = _backward(new, old)
        found += [each._replace(reason=f"for readers of the old schema: {each.reason}") for each in back]
    return found


def _backward(old: object, new: object) -> list[Finding]:
    for said, schema in (("old", old), ("new", new)):
        if reason := fault_of(schema):
            return [Finding(Kind.UNDECIDED, "", f"the {said} schema cannot be compared: {reason}")]
    if text_of(old) == text_of(new) or new is True or old is False:
        return []
    if not isinstance(old, dict) or not isinstance(new, dict):
        return _of_booleans(old, new)
    if reason := _incomparable(old, new):
        return [Finding(Kind.UNDECIDED, "", reason)]
    return _Comparison(old, new, Budget()).run(old, new)


def _of_booleans(old: object, new: object) -> list[Finding]:
    if isinstance(new, dict) and old is True:
        return _Comparison({}, new, Budget()).run({}, new)
    if new is False:
        return [Finding(Kind.BREAK, "", "no value is accepted any more")]
    return [Finding(Kind.UNDECIDED, "", "this is not a JSON Schema")]


def _incomparable(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    drafts = draft_of(old), draft_of(new)
    if None in drafts or drafts[0] != drafts[1]:
        return "`$schema` is unknown, or changes what the keywords mean"
    if has_own_bases(old) or has_own_bases(new):
        return "a part of the schema has its own `$id`, `$anchor` or `$schema`"
    return None


class _Comparison:
    """Compares two documents pair by pair; pairs wait in a list, so depth uses no stack."""

    def __init__(self, old: dict[str, Any], new: dict[str, Any], budget: Budget, nested: int = 0) -> None:
        self._roots = old, new
        self._budget = budget
        self._nested = nested

    def run(self, old: Any, new: Any) -> list[Finding]:
        """Return the findings about `old` and `new`, parts of the two documents.

        A visited pair is not compared again: every step goes down in the payload, which ends,
        so a result that holds for all pairs once also holds for recursive schemas.
        """
        found: list[Finding] = []
        visited: set[tuple[int, int]] = set()
        waiting = [(old, new, "", False)]
        while waiting:
            one, other, pointer, vague = waiting.pop()
            if (id(one), id(other)) in visited:
                continue
            visited.add((id(one), id(other)))
            cost = _NESTED_COST + (_values(one) + _values(other)) // _VALUES_PER_PAIR if self._nested else 1
            if not self._budget.spend(cost):
                return [*found, Finding(Kind.UNDECIDED, pointer, "the schemas are too large to be compared")]
            pair = self._compared(one, other, pointer, vague=vague)
            found += pair.findings
            waiting += reversed(pair.below)
        return found

    def _compared(self, old: Any, new: Any, pointer: str, *, vague: bool) -> Pair:
        pair = Pair(old={}, new={}, pointer=pointer, kinds=frozenset(), vague=vague)
        try:
            old, new = resolve(old, self._roots[0]), resolve(new, self._roots[1])
        except LookupError as e:
            pair.undecided("$ref", str(e))
            return pair
        if old is False or is_open(new):
            return pair
        if new is False:
            pair.breaks("", "no value is accepted here any more")
        elif not isinstance(new, dict) or not isinstance(old, dict | bool):
            pair.undecided("", "this is not a JSON Schema")
        else:
            pair.old, pair.new = old if isinstance(old, dict) else {}, new
            self._evaluate(pair)
        return pair

    def _evaluate(self, pair: Pair) -> None:
        pair.kinds = kinds_of(pair.old)
        if not self._is_covered(pair) and not evaluate_listed(pair):
            evaluate(pair)

    def _is_covered(self, pair: Pair) -> bool:
        """Return whether each alternative of the old schema is covered by one of the new."""
        old, new = _alternatives(pair.old, "anyOf", "oneOf"), _alternatives(pair.new, "anyOf")
        if "anyOf" in pair.new and len(old) == 1:
            old = _by_type(pair.old)
        if len(old) == len(new) == 1 or self._nested >= _MAX_NESTED:
            return False
        if "anyOf" in pair.new and len(rules_of(pair.new)) > 1:
            return False
        return all(any(self._covers(one, other) for other in new) for one in old)

    def _covers(self, old: Any, new: Any) -> bool:
        return not _Comparison(*self._roots, self._budget, self._nested + 1).run(old, new)


def _values(schema: Any) -> int:
    return (
        sum(len(each) for each in schema.values() if isinstance(each, list))
        if isinstance(schema, dict)
        else 0
    )


def _alternatives(schema: Mapping[str, Any], *keys: str) -> list[Any]:
    return next((schema[key] for key in keys if isinstance(schema.get(key), list) and schema[key]), [schema])


def _by_type(schema: Mapping[str, Any]) -> list[Any]:
    names = schema.get("type")
    return [{**schema, "type": name} for name in names] if isinstance(names, list) else [schema]
