"""YAML with one meaning: of two equal keys the last would win in silence, and a key's expiry with it.

libyaml parses when it is there: four times as fast, which decides how soon a revocation in
a file of thousands of keys holds.
"""

from collections.abc import Callable
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH: Final = 100
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = _TAG + "merge"


class _Strict(_LOADER):  # type: ignore[misc]
    """Refuses mappings with a key that comes twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key_node.tag == _MERGE or not isinstance(key_node, yaml.ScalarNode):
                continue
            key = self.construct_object(key_node)
            if key in seen:
                raise ConstructorError(
                    problem=f"the key {key!r:.70} comes twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _placed(construct: Callable[..., Any]) -> Callable[..., Any]:
    """`construct` whose failures say where: yaml lets 30 February escape as a bare `ValueError`."""

    def placed(loader: Any, node: Any) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, OverflowError):
            said = f"not a {node.tag.removeprefix(_TAG)} that exists"
            raise ConstructorError(problem=said, problem_mark=node.start_mark) from None

    return placed


for _kind in ("timestamp", "int", "float"):
    _Strict.add_constructor(_TAG + _kind, _placed(getattr(SafeConstructor, f"construct_yaml_{_kind}")))


def loads(text: str) -> Any:
    """The document in `text`.

    Raises:
        ValueError: it is no YAML, or not unambiguous; the message says where and holds no value.
    """
    try:
        _refuse_depth(text)
        return yaml.load(text, Loader=_Strict)  # noqa: S506 - a SafeLoader that refuses more
    except yaml.YAMLError as e:
        raise ValueError(f"is not YAML: {_place(e)}") from None


def _refuse_depth(text: str) -> None:
    """Refuse it first: libyaml composes by recursion without a limit: 100,000 brackets end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise ValueError(f"is nested deeper than {_MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "unreadable"
    # Only our own words are repeated: yaml's hold pieces of the text.
    said = f": {error.problem}" if isinstance(error, ConstructorError) and error.context is None else ""
    return f"line {mark.line + 1}, column {mark.column + 1}{said}"
