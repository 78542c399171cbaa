"""The exit codes of every verb, so that scripts can tell what happened."""

import sys
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stack.errors import StackError


class Exit(IntEnum):
    """What an exit code means; the help of `onramp` shows this list."""

    OK = 0
    FAILED = 1
    USAGE = 2  # what the parser itself uses
    UNAVAILABLE = 3
    UNCHECKED = 4


HELP = (
    "Exit codes: 0 all went well; 1 something failed (an event was rejected, counts do not add up, "
    "a part crashed); 2 wrong usage; 3 something that is needed is not there (Java, a jar, Kafka, "
    "Postgres, the gateway); 4 nothing is wrong, but not all could be judged (the audit)."
)


def explain(error: "StackError") -> Exit:
    """Print an error of the stack for people and return its exit code."""
    from stack.errors import UnavailableError

    print(f"onramp: {error}", file=sys.stderr)
    return Exit.UNAVAILABLE if isinstance(error, UnavailableError) else Exit.FAILED
