"""Exit codes of verbs, for scripts, and messages on standard error."""

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
    """Exit codes; `MEANINGS` describes them."""

    OK = 0
    FAILED = 1
    USAGE = 2  # what the parser itself exits with
    UNAVAILABLE = 3
    UNCHECKED = 4


MEANINGS: Final = {
    Exit.OK: "success",
    Exit.FAILED: "something failed (an event was rejected, counts do not add up, a part crashed)",
    Exit.USAGE: "wrong usage",
    Exit.UNAVAILABLE: "a requirement is missing (Java, a jar, Kafka, Postgres, the gateway)",
    Exit.UNCHECKED: "nothing is wrong, but not everything could be checked (the audit, the statement)",
}
HELP: Final = f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in MEANINGS.items())}."


def complain(problem: str) -> None:
    """Print a problem on standard error; standard output is for results."""
    print(f"onramp: {problem}", file=sys.stderr)


def explain(error: "StackError") -> Exit:
    """Print an error of the stack as a sentence, and return its exit code."""
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
    """Print a verb's result, and end it: with 0 if it `worked`, else with 1.

    JSON output is always `result`; text output is the sentence `done` or the `problem`.
    """
    if as_json:
        print(json.dumps(result))
    elif worked:
        print(done)
    else:
        complain(problem)
    raise typer.Exit(Exit.OK if worked else Exit.FAILED)
