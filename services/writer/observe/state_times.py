"""The time at which each database entered its current state, as observed by this writer."""

from collections.abc import Mapping
from datetime import UTC, datetime


class StateTimes:
    """Compares the states of one turn with those of the last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, datetime]] = {}

    def update(self, states: Mapping[str, str]) -> None:
        """Update the current state of each database."""
        for name, state in states.items():
            if name not in self._known or self._known[name][0] != state:
                self._known[name] = state, datetime.now(UTC)

    def since(self) -> dict[str, str]:
        """Return, by database, the start of its current state (ISO 8601, UTC)."""
        return {name: at.isoformat() for name, (_, at) in self._known.items()}
