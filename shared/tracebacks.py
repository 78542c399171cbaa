"""Formats exceptions for the log: tracebacks and types, without their messages.

Messages quote data: a parser's message the text, a database driver's the row. Only errors of the error
table contain no values.
"""

import re
from collections.abc import Iterator
from traceback import format_tb
from typing import Final

from shared.errors import OnrampError

#: Packages of exceptions whose text has the traceback of a worker or of the JVM.
FOREIGN: Final = ("py4j.", "pyspark.")
NAMED: Final = re.compile(r"^(?:Caused by: )?([A-Za-z_][\w.$]*(?:Error|Exception))(?=:|\s|$)", re.MULTILINE)
_PLACED: Final = re.compile(r'^\s*File "[\w./<>-]+", line \d+, in [\w<>]+$', re.MULTILINE)


def without_words(error: BaseException) -> str:
    """Return the tracebacks of `error` and its causes, the first cause first."""
    return "\n".join(_formatted(e) for e in reversed(list(_chain(error))))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _formatted(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    parts = ["".join(format_tb(error.__traceback__)), f"{name}: {error}" if _is_ours(error) else name]
    if kind.__module__.startswith(FOREIGN):
        parts += _PLACED.findall(str(error)) + NAMED.findall(str(error))
    if isinstance(error, BaseExceptionGroup):
        parts += [without_words(e) for e in error.exceptions]
    return "\n".join(parts)


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, OnrampError)
