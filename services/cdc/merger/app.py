"""Constructs the mergers, one for each database, and stops them in reverse order."""

import threading
from typing import Final

from services.cdc.merger.merger import Merger
from services.cdc.merger.published import Published, published
from services.cdc.merger.settings import MergerSettings
from shared.registry import Registry
from shared.writer_databases import WriterDatabases

_REGISTRY_SECONDS: Final = 1.0


class MergerProcess:
    """The mergers of all databases, and the registry that they read."""

    def __init__(self, settings: MergerSettings, databases: WriterDatabases, registry: Registry) -> None:
        self._registry = registry
        self._default = databases.database
        self._stop = threading.Event()
        self._mergers = [
            Merger(name, dsn, self._asking(name), settings)
            for name, dsn in databases.owners_by_name().items()
        ]

    def stop(self) -> None:
        """Stop all mergers after the merges in progress."""
        self._stop.set()

    def run(self) -> None:
        """Run until stopped."""
        threads = [threading.Thread(target=merger.run, name="merger") for merger in self._mergers]
        self._registry.refresh()
        for thread in threads:
            thread.start()
        while not self._stop.wait(_REGISTRY_SECONDS):
            self._registry.refresh()
        for merger in reversed(self._mergers):
            merger.stop()
        for thread in threads:
            thread.join()
        self._registry.close()

    def _asking(self, name: str) -> "PublishedOf":
        return PublishedOf(self._registry, name, self._default)


class PublishedOf:
    """The registry's entries for one database; empty until the registry was read."""

    def __init__(self, registry: Registry, name: str, default: str) -> None:
        self._registry = registry
        self._name = name
        self._default = default

    def __call__(self) -> Published:
        """Return the sources that are published to the database."""
        if not self._registry.is_read:
            return Published(sources={}, models={})
        return published(self._registry.snapshot(), self._name, self._default)
