"""What may be asked of the API: every parameter with its bounds; one that is not listed is refused."""

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

LAST_ID: Final = 2**63 - 1
#: Postgres has no NUL in texts.
_PATTERN: Final = r"^[^\x00]*$"
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


class EventQuery(ListQuery):
    """Which events; `since` and `until` are when they were parked."""

    group: Annotated[int | None, Field(ge=1, le=LAST_ID)] = None
    state: _Text = None
    code: _Text = None
    event_name: _Text = None
    event_id: _Text = None
    destination: _Text = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.since and self.until and self.since >= self.until:
            raise ValueError("since is not before until")
        return self


class GroupChange(BaseModel):
    """What an operator decides about a group, and who that is."""

    model_config = ConfigDict(extra="forbid")

    actor: Annotated[str, Field(min_length=1, max_length=128, pattern=_PATTERN)]
    state: GroupState | None = None
    assignee: Annotated[str | None, Field(max_length=128, pattern=_PATTERN)] = None
    reason: Annotated[str | None, Field(max_length=1024, pattern=_PATTERN)] = None
