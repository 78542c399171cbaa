"""Follows `$ref` inside one document; references to other documents are never followed."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from shared.contracts.keywords import rules_of

_MAX_STEPS: Final = 50
_DRAFTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": 2020,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft-07/schema": 7,
}
#: Keywords that change the meaning of references.
_BASES: Final = ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema")


def draft_of(root: Mapping[str, Any]) -> int | None:
    """Return the JSON Schema draft that a document declares; None for an unknown one."""
    uri = root.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    return _DRAFTS.get(uri.rstrip("#")) if isinstance(uri, str) else None


def has_own_bases(root: Mapping[str, Any]) -> bool:
    """Return whether a part below the top has its own base for references."""
    left: list[Any] = [*root.values()]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if any(isinstance(value.get(name), str) for name in _BASES):
                return True
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False


def resolve(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the schema that `schema` resolves to: itself, or the target of its references.

    Raises:
        LookupError: the target is not in this document, or the reference has sibling keywords.
    """
    for _ in range(_MAX_STEPS):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        if len(rules_of(schema)) > 1:
            raise LookupError("keywords next to `$ref` are not compared")
        schema = target_of(schema["$ref"], root)
    raise LookupError("`$ref` refers to itself, or over too many steps")


def target_of(reference: Any, root: Any) -> Any:
    """Return the part of `root` that a `$ref` leads to. Raises `LookupError`."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise LookupError("`$ref` leads out of the document, or to a name in it")
    found = root
    for part in unquote(reference).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise LookupError("`$ref` leads to nothing") from None
    return found
