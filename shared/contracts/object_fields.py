"""Collects the fields that a schema names for an event's payload itself.

Generators of schemas write the payload's type below `$defs` and a `$ref` to it at the top, or a base type and
its extension in `allOf`. Fields that only `anyOf`, `oneOf`, `if` or a dependency names are not collected,
because a payload may satisfy the schema without these parts.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.contracts.local_refs import draft_of, target_of

Node = Mapping[str, Any]
#: Drafts in which keywords next to `$ref` count.
_WITH_SIBLINGS: Final = (2019, 2020)
_MAX_PARTS: Final = 100


def is_beside_ref(schema: Node) -> bool:
    """Return whether the draft of a document evaluates keywords next to `$ref`."""
    return draft_of(schema) in _WITH_SIBLINGS


def parts_of(schema: Node) -> list[Node]:
    """Return the schemas that every payload satisfies: the top, and those of its `allOf` and `$ref`.

    References to other documents or to names are not followed.
    """
    has_siblings = is_beside_ref(schema)
    found: list[Node] = []
    left: list[Any] = [schema]
    while left and len(found) < _MAX_PARTS:
        part = left.pop(0)
        if not isinstance(part, Mapping) or any(part is each for each in found):
            continue
        left += _referenced(part, schema)
        if has_siblings or "$ref" not in part:
            found.append(part)
            more = part.get("allOf")
            left += more if isinstance(more, list) else []
    return found


def fields_of(schema: Node) -> dict[str, list[Any]]:
    """Return the schemas of each field that `schema` names, in their order."""
    fields: dict[str, list[Any]] = {}
    for part in parts_of(schema):
        named = part.get("properties")
        for name, field in named.items() if isinstance(named, Mapping) else ():
            fields.setdefault(name, []).append(field)
    return fields


def required_of(schema: Node) -> set[Any]:
    """Return the fields that every payload has."""
    names = (part.get("required") for part in parts_of(schema))
    return {name for each in names if isinstance(each, list) for name in each}


def _referenced(part: Node, root: Node) -> Iterator[Any]:
    if "$ref" in part:
        try:
            yield target_of(part["$ref"], root)
        except LookupError:
            return
