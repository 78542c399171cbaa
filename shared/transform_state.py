"""The state of a transform: a record by key `state:<name>` on partition 1 of `onramp.transformers`.

Operators pause and resume a transform through the admin service or the command line; the driver pauses one by
itself.
"""

from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final, Self

import orjson

#: Partition 0 has the epochs of drivers: a state there would look like a new epoch.
PARTITION: Final = 1
RUNNING: Final = "running"
PAUSED: Final = "paused"
_PREFIX: Final = b"state:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformState:
    """The last state that an operator or the driver has set."""

    state: str = RUNNING
    reason: str = ""
    #: RFC 3339; empty for the initial state.
    at: str = ""
    by: str = ""
    #: Whether positions outside of the log may move to its nearest end, once.
    accept: bool = False

    @property
    def is_paused(self) -> bool:
        """Return whether no run may start."""
        return self.state == PAUSED

    @property
    def tag(self) -> str:
        """Return a text that another state does not have."""
        return sha256(self.value()).hexdigest()[:16]

    def value(self) -> bytes:
        """Return the value of the state's record."""
        return orjson.dumps(asdict(self))


INITIAL: Final = TransformState()


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A record of a state."""

    transform: str
    state: TransformState

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self | None:
        """Return the record's content; None for a record of another client.  A deleted state is initial."""
        if key is None or not key.startswith(_PREFIX):
            return None
        name = key.removeprefix(_PREFIX).decode("utf-8", "replace")
        if not value:
            return cls(name, INITIAL)
        try:
            document: Any = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(document, dict) or document.get("state") not in (RUNNING, PAUSED):
            return None
        texts = {field: str(document.get(field) or "") for field in ("state", "reason", "at", "by")}
        return cls(name, TransformState(**texts, accept=document.get("accept") is True))


def key_of(transform: str) -> bytes:
    """Return the key of a transform's state."""
    return _PREFIX + transform.encode()
