"""What may be asked of the API: every parameter with its bounds; one that is not listed is refused.

And the conditions of requests: the state that a change is of (If-Match), or that a reader has.
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Depends, Header, Path
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from shared.errors import IF_MATCH_MISSING, REGISTRY_CHANGED, Fault, UserError

#: JSON's readers take most numbers as doubles: this one is the same for all of them.
LAST_ID: Final = 9_000_000_000_000_000_000
LAST_PARTITION: Final = 2**31 - 1
#: Postgres has no NUL in texts.
_PATTERN: Final = r"^[^\x00]*$"
Id = Annotated[int, Path(ge=1, le=LAST_ID)]
#: A schema and a table of it.
_Table = Annotated[str | None, Field(min_length=3, max_length=128, pattern=r"^[^.\x00]+\.[^\x00]+$")]

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
IfMatch = Annotated[
    list[str] | None, Header(alias="If-Match", description="The ETag of what was read; * for any state.")
]
IfNoneMatch = Annotated[list[str] | None, Header(alias="If-None-Match", description="An ETag that is known.")]


def _in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC: Postgres knows no offset beyond 15:59."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time is in the years 1 to 9999 in UTC") from None


_Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
_Text = Annotated[str | None, Field(min_length=1, max_length=512, pattern=_PATTERN)]


class GroupState(StrEnum):
    """What was decided about a group; a resolved one opens again by itself when it gets an event."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    IGNORED = "ignored"
    RESOLVED = "resolved"


class ListQuery(BaseModel):
    """A page of a list: its filters are all other parameters."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: Annotated[str | None, Field(max_length=512)] = None

    def filters(self) -> dict[str, Any]:
        """Return what the list is narrowed by."""
        return self.model_dump(exclude={"limit", "cursor"}, exclude_none=True)


class GroupQuery(ListQuery):
    """Which groups."""

    state: GroupState | None = None
    code: _Text = None
    event_name: _Text = None
    destination: _Text = None
    assignee: _Text = None


class PartQuery(ListQuery):
    """Which entries of the index of segments."""

    code: _Text = None
    event_name: _Text = None
    destination: _Text = None
    step: _Text = None


class EventFilters(BaseModel):
    """What tells events of a set from others; `since` and `until` are when they were parked.

    `edits`: those that an upload has edited payloads of.
    """

    model_config = ConfigDict(extra="forbid")

    group: Annotated[int | None, Field(ge=1, le=LAST_ID)] = None
    code: _Text = None
    event_name: _Text = None
    event_id: _Text = None
    destination: _Text = None
    edits: Annotated[int | None, Field(ge=1, le=LAST_ID)] = None
    since: _Moment | None = None
    until: _Moment | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.since and self.until and self.since >= self.until:
            raise ValueError("since is not before until")
        return self


class EventQuery(EventFilters, ListQuery):
    """Which events; `topic`, `partition` and `offset` are an event's place on Kafka."""

    state: _Text = None
    topic: _Text = None
    partition: Annotated[int | None, Field(ge=0, le=LAST_PARTITION)] = None
    offset: Annotated[int | None, Field(ge=0, le=LAST_ID)] = None


class ActQuery(ListQuery):
    """Which acts."""

    actor: _Text = None
    act: _Text = None
    subject: _Text = None


class Actor(BaseModel):
    """Who acts, by their own word: it counts while nobody has a key."""

    model_config = ConfigDict(extra="forbid")

    actor: _Text = None


class Reveal(Actor):
    """Why somebody has to see a value."""

    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=_PATTERN)]


class JobRequest(Actor):
    """What is to be done to which events, why, and how fast (events a second at most).

    `rehearsed` of a replay: the rehearsal whose set and plan it takes.  `with_triggers` of a rehearsal: also
    in tables whose owner has triggers on them.  `to`: the table (schema.table of the same database) that
    events land in instead of the one that they were parked for.
    """

    kind: Literal["discard", "restore", "replay", "rehearse"]
    filters: EventFilters = EventFilters()
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=_PATTERN)]
    rate: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    dry_run: bool = False
    upto: Annotated[int | None, Field(ge=1, le=LAST_ID)] = None
    expect: Annotated[int | None, Field(ge=0, le=LAST_ID)] = None
    with_triggers: bool = False
    fix: Annotated[
        list[dict[str, Any]] | dict[str, Any] | None,
        Field(
            description="Steps that edit each payload, one after the other; its numbers are taken as written."
        ),
    ] = None
    to: _Table = None
    rehearsed: Annotated[int | None, Field(ge=1, le=LAST_ID)] = None

    @model_validator(mode="after")
    def _is_one_plan(self) -> Self:
        if self.with_triggers and self.kind != "rehearse":
            raise ValueError("with_triggers is for a rehearsal")
        if self.fix is not None and self.kind not in {"rehearse", "replay"}:
            raise ValueError("fix is for a rehearsal or a replay")
        if self.fix is not None and self.filters.edits is not None:
            raise ValueError("fix and edits: give one of them")
        if self.to is not None and self.kind not in {"rehearse", "replay"}:
            raise ValueError("to is for a rehearsal or a replay")
        if self.rehearsed is not None and (
            self.kind != "replay" or self.filters.model_fields_set or self.fix or self.to
        ):
            raise ValueError("rehearsed is for a replay, whose set, fix and table it has: give no others")
        return self


class DownloadRequest(Reveal):
    """Which events, in which state, somebody has to see, and why."""

    filters: EventFilters
    state: Annotated[str, Field(min_length=1, max_length=64, pattern=_PATTERN)] = "open"


class RecheckRequest(Actor):
    """Whether replays are still known where they landed, page by page, and why somebody asks."""

    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=_PATTERN)]
    dry_run: bool = False
    after: Annotated[int, Field(ge=0, le=LAST_ID)] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000


class GroupChange(Actor):
    """What an operator decides about a group."""

    state: GroupState | None = None
    assignee: Annotated[str | None, Field(max_length=128, pattern=_PATTERN)] = None
    reason: Annotated[str | None, Field(max_length=1024, pattern=_PATTERN)] = None


class State:
    """The state that a request is a change of, by its If-Match."""

    def __init__(self, if_match: IfMatch = None) -> None:
        self._given = ",".join(if_match or ()).strip()
        self._tags = [tag for weak, tag in _TAG.findall(self._given) if not weak]

    def require_given(self) -> None:
        """Raise `UserError` IF_MATCH_MISSING."""
        if not self._given:
            raise UserError(IF_MATCH_MISSING, "the request has no If-Match")

    def require(self, tag: str, fault: Fault = REGISTRY_CHANGED) -> None:
        """Raise `UserError` if a state is named that is not in force."""
        if self._given and self._given != "*" and tag not in self._tags:
            raise UserError(fault, f'what is in force is "{tag}", and If-Match names others')


class Known:
    """The state that a reader has already, by its If-None-Match; compared weakly (RFC 9110, 13.1.2)."""

    def __init__(self, if_none_match: IfNoneMatch = None) -> None:
        given = ",".join(if_none_match or ()).strip()
        self._is_any = given == "*"
        self._tags = {tag for _, tag in _TAG.findall(given)}

    def has(self, tag: str) -> bool:
        """Whether this is what its reader has."""
        return self._is_any or tag in self._tags


#: Of what may be changed without having read it.
StateIfGiven = Annotated[State, Depends(State)]
#: Of what is read again and again, and seldom changes.
KnownIfGiven = Annotated[Known, Depends(Known)]
