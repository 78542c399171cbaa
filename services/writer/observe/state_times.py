"""Since when each database is in its state, as far as this writer has seen it."""

from collections.abc import Mapping
from datetime import UTC, datetime


class StateTimes:
    """Compares the states of one turn with those of the last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, datetime]] = {}

    def update(self, states: Mapping[str, str]) -> None:
        """Take the state of each database now."""
        for name, state in states.items():
            if name not in self._known or self._known[name][0] != state:
                self._known[name] = state, datetime.now(UTC)

    def since(self) -> dict[str, str]:
        """Return by database since when it is in its state (ISO 8601, UTC)."""
        return {name: at.isoformat() for name, (_, at) in self._known.items()}
