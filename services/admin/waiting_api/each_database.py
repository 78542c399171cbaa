"""Queries all databases at once, so that a database that does not answer costs its own patience only."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from shared.errors import InfrastructureError

T = TypeVar("T")
_MAX_AT_ONCE: Final = 16


class Unreachable(NamedTuple):
    """The reason why a database did not answer, without its DSN."""

    detail: str


def each_database(databases: Mapping[str, str], ask: Callable[[str, str], T]) -> dict[str, T | Unreachable]:
    """Return the answer of each database by its name; `ask` takes the name and the DSN."""

    def answer_of(name: str) -> T | Unreachable:
        try:
            return ask(name, databases[name])
        except InfrastructureError as e:
            return Unreachable(e.detail)

    if not databases:
        return {}
    with ThreadPoolExecutor(min(len(databases), _MAX_AT_ONCE)) as threads:
        return dict(zip(databases, threads.map(answer_of, databases), strict=True))
