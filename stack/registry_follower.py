"""Follows the sources and transforms that the registry in Kafka names, for `onramp up`, which runs them."""

from collections.abc import Mapping
from time import monotonic
from typing import Final

from shared.registry.factory import open_log
from shared.registry.log_registry import LogRegistry
from shared.registry.sources import Source
from shared.settings import KafkaSettings, RegistrySettings

_SECONDS: Final = 1.0


class RegistryFollower:
    """Follows the registry; reading starts with `news`."""

    def __init__(self, bootstrap: str) -> None:
        """`bootstrap`: the brokers that have the registry's topic."""
        self._registry = LogRegistry(open_log(RegistrySettings(), KafkaSettings(bootstrap=bootstrap)))
        self._read_at = float("-inf")
        self._known: Mapping[str, Source] = {}
        self.has_transforms = False

    @property
    def all(self) -> Mapping[str, Source]:
        """The sources by name, as of the last read."""
        return self._known

    def news(self) -> dict[str, Source]:
        """Return the sources that were named since the last call; the log is read once a second at most."""
        if monotonic() < self._read_at + _SECONDS:
            return {}
        self._registry.refresh()
        self._read_at = monotonic()
        before = self._known
        if self._registry.is_read:
            snapshot = self._registry.snapshot()
            self._known, self.has_transforms = snapshot.sources, bool(snapshot.transforms)
        return {name: source for name, source in self._known.items() if name not in before}

    def close(self) -> None:
        """Close the log."""
        self._registry.close()
