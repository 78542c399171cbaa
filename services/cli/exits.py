"""How a verb ends: its exit code, so that scripts can tell what happened, and what it says on the way."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

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


def complain(problem: str) -> None:
    """Print a problem on standard error, which leaves standard output to results."""
    print(f"onramp: {problem}", file=sys.stderr)


def explain(error: "StackError") -> Exit:
    """Print an error of the stack for people and return its exit code."""
    from stack.errors import UnavailableError

    complain(str(error))
    return Exit.UNAVAILABLE if isinstance(error, UnavailableError) else Exit.FAILED


@contextmanager
def exits_when_unavailable() -> Iterator[None]:
    """End the verb with a sentence and exit code 3 when Kafka or a database cannot be reached inside."""
    from shared.errors import InfrastructureError

    try:
        yield
    except InfrastructureError as error:
        complain(error.detail)
        raise typer.Exit(Exit.UNAVAILABLE) from error


def finish(result: Mapping[str, Any], *, worked: bool, as_json: bool, done: str, problem: str) -> NoReturn:
    """Print what a verb has changed, and end it: with 0 if it `worked`, else with 1.

    As JSON it is `result` either way; for people it is the sentence `done` or the `problem`.
    """
    if as_json:
        print(json.dumps(result))
    elif worked:
        print(done)
    else:
        complain(problem)
    raise typer.Exit(Exit.OK if worked else Exit.FAILED)
