"""Request models of these routes, and the tags by which a decision names the state that was read."""

from hashlib import sha256
from typing import Annotated, Final, Literal

from fastapi import Path
from pydantic import Field

from services.admin.api.queries import Actor

_TEXT: Final = r"^[^\x00]*$"
_Reason = Annotated[
    str,
    Field(min_length=1, max_length=1024, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$"),
]
_Name = Annotated[str, Field(min_length=1, max_length=512, pattern=_TEXT)]
DatabaseName = Annotated[str, Field(min_length=1, max_length=128, pattern=_TEXT)]

DatabasePath = Annotated[
    str, Path(min_length=1, max_length=128, pattern=_TEXT, description="Its public name.")
]


class Decision(Actor):
    """A decision about waiting events: its reason, and whether it is only tried."""

    reason: _Reason
    dry_run: bool = False


class HoldDecision(Decision):
    """The hold: its database, its kind, and its name as `GET /v1/holds` shows it."""

    database: DatabaseName
    kind: Literal["table", "type"]
    name: _Name


class HaltDecision(Decision):
    """The way in which a halted database continues."""

    how: Literal["recheck", "refill", "skip"]


class PartitionDecision(Decision):
    """The halted partition (topic/number), and the way in which it continues."""

    partition: _Name
    how: Literal["accept"]


def tag_of(*state: object) -> str:
    """Return the tag of a state."""
    return sha256(repr(state).encode()).hexdigest()[:16]
