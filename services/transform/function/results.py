"""The results of an author's function: outputs, no output, or a failure, one for each event."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from shared.errors import Fault


class OutputEvent(NamedTuple):
    """One output; `payload` is JSON of the function's process, which the parent need not parse."""

    event_name: str
    payload: bytes


class Outputs(msgspec.Struct, frozen=True, gc=False):
    """The outputs of one event, at least one.  A struct: a dataclass takes four times as long."""

    items: tuple[OutputEvent, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """The function has no output for the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The function failed on the event.  `message` and `traceback` may contain values of the event."""

    error: Fault
    exception: str = ""
    function: str = ""
    line: int | None = None
    message: str = ""
    traceback: str = ""


FunctionResult = Outputs | Dropped | Failure
