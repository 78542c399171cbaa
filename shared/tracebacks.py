"""An exception for the log: where it was raised and of which types, and none of its words.

What raises says what it stumbled over: a parser the text, a driver the row.  Only the errors of
our own table are known to hold no values.
"""

import re
from collections.abc import Iterator
from traceback import format_tb
from typing import Final

from shared.errors import OnrampError

#: Spark says what a worker or its JVM met in the text of its own exception.
FOREIGN: Final = ("py4j.", "pyspark.")
NAMED: Final = re.compile(r"^(?:Caused by: )?([A-Za-z_][\w.$]*(?:Error|Exception))(?=:|\s|$)", re.MULTILINE)
_PLACED: Final = re.compile(r'^\s*File "[\w./<>-]+", line \d+, in [\w<>]+$', re.MULTILINE)


def without_words(error: BaseException) -> str:
    """The traceback of `error` and of what it came of, the first one first."""
    return "\n".join(_told(e) for e in reversed(list(_chain(error))))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _told(error: BaseException) -> str:
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
