"""For each keyword of the new schema, checks whether the old one is at least as strict.

The old schema may be treated as wider than it is, and the new one as narrower, never the reverse:
then a change that passes is certainly compatible.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from shared.contracts.json_values import text_of
from shared.contracts.keywords import (
    BOUNDS,
    LENGTHS,
    Taker,
    bound,
    is_open,
    kinds_of,
    listed,
    number,
    rules_of,
    type_names,
)
from shared.contracts.pair import Kind, Pair, escaped

#: Maximum shown characters of a schema's value.
_SHOWN: Final = 70
#: Formats that exclude each other.
_FORMS: Final = frozenset({"date", "date-time", "time", "duration", "uuid", "email", "ipv4", "ipv6"})
_FINITE: Final = {"null": ("null",), "boolean": ("true", "false")}


def evaluate(pair: Pair) -> None:
    """Record values that the old schema accepts and the new one rejects, and schedule comparisons below."""
    old = rules_of(pair.old, pair.kinds)
    pair.vague |= any(key not in _RULES and key not in _KNOWN for key in old)
    for key in rules_of(pair.new, pair.kinds):
        _RULES.get(key, _unknown)(pair, key)


def evaluate_listed(pair: Pair) -> bool:
    """Return whether the old schema lists all accepted values, each evaluated; record the results."""
    values = listed(pair.old)
    if values is None:
        return False
    new = Taker(pair.new)
    verdicts = {text: new.takes(value) for text, value in values.items()}
    if None in verdicts.values():
        pair.vague = True
        return False
    for text, taken in verdicts.items():
        if not taken:
            pair.breaks("enum", f"{text:.{_SHOWN}} is no longer accepted")
    return True


def _type(pair: Pair, key: str) -> None:
    if rejected := pair.kinds - kinds_of(pair.new):
        pair.breaks(
            key, f"{type_names(rejected)} is no longer accepted, only {type_names(kinds_of(pair.new))}"
        )


def _values(pair: Pair, key: str) -> None:
    new = listed({"enum": [], key: pair.new[key]}) or {}
    old = listed(pair.old)
    if old is None and pair.kinds <= _FINITE.keys():
        old = {text: text for kind in pair.kinds for text in _FINITE[kind]}
    if old is None:
        pair.breaks(key, f"any {type_names(pair.kinds)} was accepted, and only some values are now")
    elif missing := sorted(old.keys() - new.keys()):
        pair.breaks(key, f"{', '.join(missing):.{_SHOWN}} is no longer accepted")


def _bound(pair: Pair, key: str) -> None:
    lower, whole = key in BOUNDS[:2], "fraction" not in pair.kinds
    if number(pair.new, key) is None:
        _unknown(pair, key)
    elif bound(pair.old, lower=lower, whole=whole) < bound({key: pair.new[key]}, lower=lower, whole=whole):
        pair.breaks(key, _was(pair, key))


def _length(pair: Pair, key: str) -> None:
    is_minimum = key.startswith("min")
    old, new = number(pair.old, key), number(pair.new, key)
    if key == "minProperties":
        old = max(old or 0, len(_required(pair.old)))
    if new is None:
        _unknown(pair, key)
    elif (old or 0) < new if is_minimum else old is None or old > new:
        pair.breaks(key, _was(pair, key))


def _pattern(pair: Pair, key: str) -> None:
    if key not in pair.old:
        pair.breaks(key, "any text was accepted, and only matching texts are now")
    elif pair.old[key] != pair.new[key]:
        pair.undecided(key, "a person must decide whether all texts that matched before match now")


def _format(pair: Pair, key: str) -> None:
    old, new = pair.old.get(key), pair.new[key]
    if old == new:
        return
    if new in _FORMS and (old is None or old in _FORMS):
        pair.breaks(key, f"{old or 'any text'} was accepted, and only {new} is now")
    else:
        pair.undecided(
            key, f"{old or 'any text'} was accepted; it is unknown whether {new} rejects any of it"
        )


def _required_fields(pair: Pair, key: str) -> None:
    for name in sorted(_required(pair.new) - _required(pair.old)):
        pair.breaks(key, f"the field {name:.{_SHOWN}} was optional, and is required")


def _properties(pair: Pair, key: str) -> None:
    old = _mapping(pair.old, key)
    for name, schema in _mapping(pair.new, key).items():
        if name in old:
            pair.then(old[name], schema, key, name)
        else:
            _added(pair, name, schema)


def _added(pair: Pair, name: str, schema: Any) -> None:
    """Evaluate a field that the old schema does not name: it accepted any value of it, or none."""
    rest = pair.old.get("additionalProperties", True)
    at = f"properties/{escaped(name)}"
    if is_open(schema):
        return
    if "patternProperties" in pair.old:
        pair.undecided(at, "a pattern of the old schema may have named this field: not compared")
    elif is_open(rest):
        kind = Kind.UNDECIDED if pair.vague else Kind.WARNING
        pair.note(kind, at, "a new field: events with another value in it are rejected")
    else:
        pair.then(rest, schema, "properties", name)


def _other_fields(pair: Pair, key: str) -> None:
    """Evaluate how the new schema treats fields that it does not name."""
    new, named = pair.new[key], _mapping(pair.new, "properties")
    for name, schema in _mapping(pair.old, "properties").items():
        if name not in named and new is False and schema is not False:
            pair.breaks(key, f"the field {name:.{_SHOWN}} was known, and is not allowed any more")
        elif name not in named:
            pair.then(schema, new, key, name)
    rest = pair.old.get(key, True)
    if new is False and rest is not False:
        pair.breaks(key, "unnamed fields were accepted, and are rejected now")
    else:
        pair.then(rest, new, key)
    if "patternProperties" in pair.old and "patternProperties" not in pair.new:
        pair.undecided(key, "fields that matched a pattern are evaluated by this keyword now")


def _items(pair: Pair, key: str) -> None:
    if isinstance(pair.new[key], list) or isinstance(pair.old.get(key), list):
        _unknown(pair, key)
    else:
        pair.then(pair.old.get(key, True), pair.new[key], key)
        if "prefixItems" in pair.old and "prefixItems" not in pair.new:
            pair.undecided(key, "the first elements are evaluated by this keyword now")


def _unknown(pair: Pair, key: str) -> None:
    """Accept a keyword that is equal in both, with related keywords and unchanged references."""
    group = _GROUPS.get(key, (key,))
    old, new = (text_of([each.get(name) for name in group]) for each in (pair.old, pair.new))
    if old != new or 'Ref"' in old or '"$ref"' in old or key.startswith("unevaluated"):
        pair.undecided(key, f"`{key}` is not compared")


def _was(pair: Pair, key: str) -> str:
    return f"it was {pair.old.get(key, 'absent')}, and is {pair.new[key]}"


def _required(schema: Mapping[str, Any]) -> set[str]:
    names = schema.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get(key)
    return found if isinstance(found, Mapping) else {}


_RULES: Final[Mapping[str, Callable[[Pair, str], None]]] = {
    "type": _type,
    **dict.fromkeys(("enum", "const"), _values),
    **dict.fromkeys(BOUNDS, _bound),
    **dict.fromkeys(LENGTHS, _length),
    "pattern": _pattern,
    "format": _format,
    "required": _required_fields,
    "properties": _properties,
    "additionalProperties": _other_fields,
    "items": _items,
}
#: Keywords that do not narrow what the rules above evaluate of the old schema.
_KNOWN: Final = frozenset({"patternProperties", "prefixItems", "minContains", "maxContains"})
#: Keywords whose meaning depends on others.
_GROUPS: Final = {
    **dict.fromkeys(("if", "then", "else"), ("if", "then", "else")),
    **dict.fromkeys(("contains", "minContains", "maxContains"), ("contains", "minContains", "maxContains")),
    "additionalItems": ("items", "prefixItems", "additionalItems"),
}
