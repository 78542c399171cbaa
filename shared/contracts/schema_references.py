"""Finds every subschema that a reference inside one JSON Schema document may lead to.

A part with an `$id` of its own is the base of the references within it.  The validator's rules for bases
depend on the draft, on the place of the part and on the normal form of URIs.  Where they leave a choice,
all subschemas that the reference may lead to are returned: the computed cost must not be too low.
"""

import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from shared.contracts.local_refs import draft_of

Node = Mapping[str, Any]
_WORD: Final = re.compile(r"[^\W_]+")
#: A reference may be compared with each of them.
_MAX_BASES: Final = 200
_META: Final = re.compile(r"https?://json-schema\.org/", re.IGNORECASE)
#: Drafts in which `$id` makes a part a base, next to a `$ref` too, and `id` does not.
_PLAIN_DRAFTS: Final = (2019, 2020)
#: Keywords with a subschema, with a list of them, and with subschemas by name: there a base is certain.
_SCHEMA: Final = frozenset(
    {"items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"}
)
_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_BY_NAME: Final = frozenset({"$defs", "properties", "patternProperties", "dependentSchemas"})


class _Place(NamedTuple):
    """The surroundings of a value: the parts with a base that it is within, the nearest first.

    `keyword`: whose value it is, or empty for a subschema; None if it may be no subschema.
    """

    around: tuple["_Base", ...]
    keyword: str | None = ""

    def member(self, key: str) -> "_Place":
        """Return the place of a member of an object."""
        if self.keyword == "":
            return _Place(self.around, key)
        is_named = self.keyword in _BY_NAME
        return _Place(self.around, "" if is_named else None)


class _Base(NamedTuple):
    """A part with a URI of its own, and whether the validator takes it for a base in any case."""

    node: Node
    is_certain: bool


class TooCostlyError(ValueError):
    """A value of an event could need more evaluations than allowed."""


class References:
    """The references of one document, which must not change afterwards."""

    def __init__(self, root: Node, nodes: dict[int, Node]) -> None:
        """Add every object of the document to `nodes`, by identity."""
        self._root = root
        self._nodes = nodes
        self._named: dict[str, list[Node]] = {}
        #: The parts below the root with a base, by a word of their URIs.
        self._bases: dict[str, list[Node]] = {}
        self._around: dict[int, tuple[_Base, ...]] = {}
        self._is_plain = draft_of(root) in _PLAIN_DRAFTS
        self._index()
        self._every = [root, *(each for parts in self._bases.values() for each in parts)]
        if len(self._every) > _MAX_BASES:
            raise TooCostlyError(f"more than {_MAX_BASES} parts of the schema have an $id of their own")

    def targets(self, schema: Node, reference: str) -> Iterator[Node | None]:
        """Yield the subschemas that a reference in `schema` may lead to; None for JSON Schema's own document.

        Raises:
            TooCostlyError: it leads to a place in this document that is not known.
        """
        document, _, fragment = reference.partition("#")
        found: list[Any] = []
        if fragment and not fragment.startswith("/"):
            found = self._named.get(unquote(fragment), [])
        else:
            for starts in self._starts(schema, document):
                found = found or [each for start in starts for each in _at(start, fragment)]
        yield from {id(each): each for each in found if isinstance(each, Mapping)}.values()
        if not found:
            if not _META.match(document):
                raise TooCostlyError(f"it is not known where the reference {reference:.100} leads")
            yield None

    def _starts(self, schema: Node, document: str) -> Iterator[list[Node]]:
        """Yield the parts that a reference may be relative to: the likely ones, then all."""
        if document:
            word = _word_of(document)
            root = [self._root] if word in {"", _word_of(_uri_of(self._root))} else []
            yield [*self._bases.get(word, []), *root] if word else self._every
            if _META.match(document):
                return
        else:
            near = self._near(schema)
            words = {"", *(_word_of(_uri_of(each)) for each in near)}
            # Two parts may have one URI.
            yield [*near, *(each for word in words for each in self._bases.get(word, []))]
        yield self._every

    def _near(self, schema: Node) -> list[Node]:
        """Return the parts around a subschema of which one is the base: as far as the first certain one."""
        found: list[Node] = []
        for base in self._around[id(schema)]:
            found.append(base.node)
            if base.is_certain and self._is_plain:
                break
        return found

    def _index(self) -> None:
        left: list[tuple[Any, _Place]] = [(self._root, _Place((_Base(self._root, True),)))]
        while left:
            each, place = left.pop()
            if isinstance(each, Mapping):
                if id(each) in self._nodes:
                    continue
                self._nodes[id(each)] = each
                if place.keyword in _SCHEMA:
                    place = place._replace(keyword="")
                place = place._replace(around=self._add_names(each, place))
                self._around[id(each)] = place.around
                left += ((value, place.member(key)) for key, value in each.items())
            elif isinstance(each, list):
                inner = place._replace(keyword="" if place.keyword in _LIST else None)
                left += ((value, inner) for value in each)

    def _add_names(self, node: Node, place: _Place) -> tuple[_Base, ...]:
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(key), str):
                self._named.setdefault(node[key], []).append(node)
        is_base = False
        for uri in _uris_of(node):
            document, _, anchor = uri.partition("#")
            if anchor:
                self._named.setdefault(anchor, []).append(node)
            if node is not self._root and (document or not anchor):
                self._bases.setdefault(_word_of(document), []).append(node)
                is_base = True
        if node is not self._root and isinstance(node.get("$schema"), str):
            self._is_plain = False
        is_certain = place.keyword == "" and "id" not in node
        return (_Base(node, is_certain), *place.around) if is_base else place.around


def _uris_of(node: Node) -> Iterator[str]:
    """Yield the URIs of a part; in draft 4 the keyword is `id`."""
    yield from (node[key] for key in ("$id", "id") if isinstance(node.get(key), str))


def _uri_of(node: Node) -> str:
    return next((uri.partition("#")[0] for uri in _uris_of(node)), "")


def _word_of(uri: str) -> str:
    """Return the last word of a URI, which all its normal forms share; empty without one."""
    words = _WORD.findall(normpath(unquote(uri)).lower()) if uri else []
    return words[-1] if words else ""


def _at(start: Node, fragment: str) -> list[Any]:
    """Return the value at a JSON Pointer in a list, which is empty without such a value."""
    found: Any = start
    for part in unquote(fragment).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return []
    return [found]
