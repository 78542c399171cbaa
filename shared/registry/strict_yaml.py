"""Loads strict YAML without repeated keys, of which the last would win silently (e.g. a key's expiry).

libyaml is used if installed: it is four times as fast, which decides how soon a revocation in
a file of thousands of keys takes effect.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH: Final = 100
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = _TAG + "merge"


class _Strict(_LOADER):  # type: ignore[misc]
    """A loader that rejects mappings with a repeated key."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key_node.tag == _MERGE or not isinstance(key_node, yaml.ScalarNode):
                continue
            key = self.construct_object(key_node)
            if key in keys:
                raise ConstructorError(
                    problem=f"the key {key!r:.70} comes twice", problem_mark=key_node.start_mark
                )
            keys.add(key)
        return super().construct_mapping(node, deep)


def _placed(construct: Callable[..., Any]) -> Callable[..., Any]:
    """Add a position to the errors of `construct`: yaml raises a bare `ValueError` for 30 February."""

    def placed(loader: Any, node: Any) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, OverflowError):
            problem = f"not a {node.tag.removeprefix(_TAG)} that exists"
            raise ConstructorError(problem=problem, problem_mark=node.start_mark) from None

    return placed


for _kind in ("timestamp", "int", "float"):
    _Strict.add_constructor(_TAG + _kind, _placed(getattr(SafeConstructor, f"construct_yaml_{_kind}")))


def loads(text: str) -> Any:
    """Parse `text`.

    Raises:
        ValueError: it is not YAML, or ambiguous; the message has the position and no value.
    """
    try:
        _reject_depth(text)
        return yaml.load(text, Loader=_Strict)  # noqa: S506 - a SafeLoader that rejects more
    except yaml.YAMLError as e:
        raise ValueError(f"is not YAML: {_position(e)}") from None


def line_of(text: str, path: Sequence[object]) -> int:
    """Return the line (from 1) of the deepest existing part of `path` (keys and indexes); 0 if none.

    `text` must be valid for `loads`.
    """
    line, node = 0, _composed(text)
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        line, node = found
    return line


@lru_cache(maxsize=1)  # many places of one file are looked up
def _composed(text: str) -> Any:
    try:
        return yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError:
        return None


def _child(node: Any, step: object) -> tuple[int, Any] | None:
    """Return the line of a key or an element, and its node."""
    if isinstance(node, yaml.MappingNode):
        return next(
            ((key.start_mark.line + 1, value) for key, value in node.value if key.value == str(step)), None
        )
    if isinstance(node, yaml.SequenceNode) and str(step).isdecimal() and int(str(step)) < len(node.value):
        element = node.value[int(str(step))]
        return element.start_mark.line + 1, element
    return None


def _reject_depth(text: str) -> None:
    """Raise `ValueError` before libyaml composes: it recurses without limit, 100,000 brackets crash it."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise ValueError(f"is nested deeper than {_MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _position(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "unreadable"
    # Only our own messages are repeated: yaml's messages quote the text.
    problem = f": {error.problem}" if isinstance(error, ConstructorError) and error.context is None else ""
    return f"line {mark.line + 1}, column {mark.column + 1}{problem}"
