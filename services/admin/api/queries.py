"""The API's parameters with their bounds; a parameter that is not listed is refused.

Also the conditions of requests: the state that a change expects (If-Match), or that a reader has.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Depends, Header, Path
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from shared.errors import IF_MATCH_MISSING, REGISTRY_CHANGED, Fault, UserError

#: Largest integer that every JSON reader represents exactly: many read numbers as doubles.
LAST_ID: Final = 9_000_000_000_000_000_000
LAST_PARTITION: Final = 2**31 - 1
#: Postgres has no NUL in texts.
_PATTERN: Final = r"^[^\x00]*$"
Id = Annotated[int, Path(ge=1, le=LAST_ID)]
#: A schema and a table of it.
_Table = Annotated[str | None, Field(min_length=3, max_length=128, pattern=r"^[^.\x00]+\.[^\x00]+$")]

_NUMBER: Final = re.compile(r"[-+]?[\d_.]+")
_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
IfMatch = Annotated[
    list[str] | None, Header(alias="If-Match", description="The ETag of what was read; * for any state.")
]
IfNoneMatch = Annotated[list[str] | None, Header(alias="If-None-Match", description="An ETag that is known.")]


def _in_utc(moment: datetime) -> datetime:
    """Return a time in UTC: Postgres accepts no offset beyond 15:59."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time is in the years 1 to 9999 in UTC") from None


def _text(given: object) -> object:
    """Refuse a number, which pydantic would read as seconds since 1970."""
    if isinstance(given, (int, float)) or (isinstance(given, str) and _NUMBER.fullmatch(given.strip())):
        raise ValueError("a time is a text, as 2030-01-31T08:00:00Z")
    return given


_Moment = Annotated[AwareDatetime, BeforeValidator(_text), AfterValidator(_in_utc)]
_Day = Annotated[date, BeforeValidator(_text)]
#: The reason for an action, as in the audit log.
Reason = Annotated[str, Field(min_length=1, max_length=1024, pattern=_PATTERN)]
_Text = Annotated[str | None, Field(min_length=1, max_length=512, pattern=_PATTERN)]


class StatementQuery(BaseModel):
    """The period of a statement, and its event type: without `since` from the first event, to now."""

    model_config = ConfigDict(extra="forbid")

    day: _Day | None = None
    since: _Moment | None = None
    until: _Moment | None = None
    type: _Text = None

    @model_validator(mode="after")
    def _one_period(self) -> Self:
        if self.day is not None and (self.since or self.until):
            raise ValueError("day is a period by itself: leave since and until out")
        if self.since and self.until and self.since >= self.until:
            raise ValueError("since is before until")
        today = datetime.now(UTC).date()
        if self.day is not None and self.day > today:
            raise ValueError(f"day {self.day} has not begun: the last one is today, {today} in UTC")
        return self

    @property
    def period(self) -> tuple[datetime | None, datetime | None]:
        """Return the start and the end."""
        if self.day is None:
            return self.since, self.until
        start = datetime.combine(self.day, time(), UTC)
        return start, start + timedelta(days=1)


class GroupState(StrEnum):
    """An operator's decision about a group; a resolved group reopens when it gets an event."""

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
        """Return the filters of the list."""
        return self.model_dump(exclude={"limit", "cursor"}, exclude_none=True)


class GroupQuery(ListQuery):
    """Filters of groups."""

    state: GroupState | None = None
    code: _Text = None
    event_name: _Text = None
    destination: _Text = None
    assignee: _Text = None
    facets: Annotated[bool, Field(description="Whether each group has the facets of its events.")] = False

    def filters(self) -> dict[str, Any]:
        """Return the filters of the list."""
        return self.model_dump(exclude={"limit", "cursor", "facets"}, exclude_none=True)


class PartQuery(ListQuery):
    """Filters of the index of segments."""

    code: _Text = None
    event_name: _Text = None
    destination: _Text = None
    step: _Text = None


class EventFilters(BaseModel):
    """The filters of a set of events; `since` and `until` bound the time of parking.

    `edits`: the events with payloads edited by this upload.
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
    """Filters of events; `topic`, `partition` and `offset` are an event's position in Kafka."""

    state: _Text = None
    topic: _Text = None
    partition: Annotated[int | None, Field(ge=0, le=LAST_PARTITION)] = None
    offset: Annotated[int | None, Field(ge=0, le=LAST_ID)] = None


class ActQuery(ListQuery):
    """Filters of the audit log."""

    actor: _Text = None
    act: _Text = None
    subject: _Text = None


class JobQuery(ListQuery):
    """Filters of jobs; `group`: the jobs whose set is named by this group."""

    kind: Literal["discard", "restore", "replay", "rehearse"] | None = None
    state: _Text = None
    group: Annotated[int | None, Field(ge=1, le=LAST_ID)] = None


class Actor(BaseModel):
    """The actor as given by the caller; used only while no operator has a key."""

    model_config = ConfigDict(extra="forbid")

    actor: _Text = None


class Reveal(Actor):
    """The reason for reading a value."""

    reason: Reason


class JobRequest(Actor):
    """A job: its kind, its set of events, its reason, and its maximum rate in events a second.

    `rehearsed` of a replay: the rehearsal whose set and plan it takes.  `with_triggers` of a rehearsal: also
    in tables whose owner has triggers on them.  `to`: the table (schema.table of the same database) that
    events land in instead of the one that they were parked for.
    """

    kind: Literal["discard", "restore", "replay", "rehearse"]
    filters: EventFilters = EventFilters()
    reason: Reason
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
    """The events to download, their state, and the reason."""

    filters: EventFilters
    state: Annotated[str, Field(min_length=1, max_length=64, pattern=_PATTERN)] = "open"


class RecheckRequest(Actor):
    """A recheck, page by page, of whether databases still know replays, and its reason."""

    reason: Reason
    dry_run: bool = False
    after: Annotated[int, Field(ge=0, le=LAST_ID)] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000


class GroupChange(Actor):
    """An operator's change of a group."""

    state: GroupState | None = None
    assignee: Annotated[str | None, Field(max_length=128, pattern=_PATTERN)] = None
    reason: Annotated[str | None, Field(max_length=1024, pattern=_PATTERN)] = None


class ReadGroup(BaseModel):
    """A group, and its ETag as it was read; * for any state."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[int, Field(ge=1, le=LAST_ID)]
    etag: Annotated[str, Field(min_length=1, max_length=64, pattern=_PATTERN)]


class GroupsChange(GroupChange):
    """One change of many groups."""

    groups: Annotated[list[ReadGroup], Field(min_length=1, max_length=500)]

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        if len({each.id for each in self.groups}) < len(self.groups):
            raise ValueError("a group comes twice")
        return self


class State:
    """The state that a change expects, from If-Match."""

    def __init__(self, if_match: IfMatch = None) -> None:
        self._given = ",".join(if_match or ()).strip()
        self._tags = [tag for weak, tag in _TAG.findall(self._given) if not weak]

    def require_given(self) -> None:
        """Raise `UserError` IF_MATCH_MISSING."""
        if not self._given:
            raise UserError(IF_MATCH_MISSING, "the request has no If-Match")

    def require(self, tag: str, fault: Fault = REGISTRY_CHANGED) -> None:
        """Raise `UserError` if If-Match names a state that is not in force."""
        if self._given and self._given != "*" and tag not in self._tags:
            raise UserError(fault, f'the present ETag is "{tag}", and If-Match names others')


class Known:
    """The state that a reader has already, from If-None-Match; compared weakly (RFC 9110, 13.1.2)."""

    def __init__(self, if_none_match: IfNoneMatch = None) -> None:
        given = ",".join(if_none_match or ()).strip()
        self._is_any = given == "*"
        self._tags = {tag for _, tag in _TAG.findall(given)}

    def has(self, tag: str) -> bool:
        """Return whether the reader has this state."""
        return self._is_any or tag in self._tags


#: For changes that do not require a previous read.
StateIfGiven = Annotated[State, Depends(State)]
#: For documents that are polled and seldom change.
KnownIfGiven = Annotated[Known, Depends(Known)]
