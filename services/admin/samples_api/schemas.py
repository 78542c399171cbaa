"""Request models of these routes."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from services.admin.api.queries import Actor
from shared import wire

_TEXT: Final = r"^[^\x00]*$"
_Name = Annotated[str, Field(pattern=f"^{wire.EVENT_NAME.pattern}$")]
_Sample = Annotated[str, Field(min_length=1, max_length=1 << 20, pattern=_TEXT)]


class InferRequest(BaseModel):
    """An event name, and samples as JSON texts of events or payloads; without them its newest records."""

    model_config = ConfigDict(extra="forbid")

    name: _Name
    samples: Annotated[list[_Sample] | None, Field(min_length=1, max_length=1000)] = None
    last: Annotated[int, Field(ge=1, le=1000)] = 1000


class PreviewRequest(Actor):
    """An event type as under its name in `onramp.yaml`, and samples as JSON texts of events or payloads.

    Without samples its newest events are shown, and `reason` is stored with who sees them.
    """

    name: _Name
    event_type: dict[str, Any]
    samples: Annotated[list[_Sample] | None, Field(min_length=1, max_length=50)] = None
    reason: Annotated[str | None, Field(min_length=1, max_length=1024, pattern=_TEXT)] = None

    @model_validator(mode="after")
    def _says_why(self) -> "PreviewRequest":
        if self.samples is None and self.reason is None:
            raise ValueError("give samples, or the reason for reading the newest events")
        return self
