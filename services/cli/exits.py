"""The exit codes of every verb, so that scripts can tell what happened."""

import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stack.errors import StackError


class Exit(IntEnum):
    """What an exit code means; `MEANINGS` says it in words."""

    OK = 0
    FAILED = 1
    USAGE = 2  # what the parser itself exits with
    UNAVAILABLE = 3
    UNCHECKED = 4


MEANINGS: Final = {
    Exit.OK: "all went well",
    Exit.FAILED: "something failed (an event was rejected, counts do not add up, a part crashed)",
    Exit.USAGE: "wrong usage",
    Exit.UNAVAILABLE: "something that is needed is not there (Java, a jar, Kafka, Postgres, the gateway)",
    Exit.UNCHECKED: "nothing is wrong, but not all could be judged (the audit)",
}
HELP: Final = f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in MEANINGS.items())}."


def explain(error: "StackError") -> Exit:
    """Print an error of the stack for people and return its exit code."""
    from stack.errors import UnavailableError

    print(f"onramp: {error}", file=sys.stderr)
    return Exit.UNAVAILABLE if isinstance(error, UnavailableError) else Exit.FAILED
