"""Reads and edits the registry on behalf of a service's callers: state in force, history, editors."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from services.ops.registry.database_addresses import Places
from shared.errors import OVERLOADED, REGISTRY_UNREAD, InfrastructureError
from shared.registry import Snapshot
from shared.registry.change_log import Chain, ChangeSet
from shared.registry.editor import Editor
from shared.registry.factory import open_log
from shared.registry.log import RegistryLog
from shared.registry.log_registry import LogRegistry
from shared.settings import KafkaSettings, RegistrySettings
from shared.strict_json import loads

#: Maximum concurrent changes: each reads the whole log, and the log decides which of them counts.
MAX_CHANGES: Final = 4
_TURN_SECONDS: Final = 10.0


class RegistryReading(NamedTuple):
    """The registry in force, and the offsets of its change sets in their order."""

    tag: str
    offset: int
    document: dict[str, Any]
    snapshot: Snapshot
    counted: list[int]


class Change(NamedTuple):
    """A change set that counted, and its offset."""

    offset: int
    change: ChangeSet


class RegistryReader:
    """Reads the log on each call, so a caller sees its own changes; for many threads."""

    def __init__(
        self,
        kafka: KafkaSettings,
        named: RegistrySettings,
        places: Places,
        *,
        opened: Callable[[], RegistryLog] | None = None,
    ) -> None:
        """`opened` opens the log, by default the topic's."""
        self.kafka = kafka
        self.places = places
        self._open = opened or partial(open_log, named, kafka)
        self._log = self._open()
        self._registry = LogRegistry(self._log)
        #: One thread at a time reads the log.
        self._reading = threading.Lock()
        #: Separate limits: a change of types waits for databases, a change of keys never does.
        self._changing = {of_keys: threading.BoundedSemaphore(MAX_CHANGES) for of_keys in (False, True)}
        self._last: tuple[Chain, RegistryReading] | None = None

    def read(self) -> RegistryReading:
        """Return the registry in force.

        Raises:
            InfrastructureError: the log cannot be read, or is not the registry that it was.
        """
        with self._turn():
            self._registry.refresh()
            chain = self._registry.chain
            if chain is None or self._registry.trouble:
                raise InfrastructureError(REGISTRY_UNREAD, self._registry.trouble)
            if self._last is None or self._last[0] is not chain or self._last[1].offset != chain.last:
                seen = RegistryReading(
                    tag_of(chain), chain.last, chain.document(), chain.snapshot(), list(chain.counted)
                )
                self._last = chain, seen
            return self._last[1]

    def changes(self, offsets: Sequence[int]) -> list[Change]:
        """Return the change sets at offsets that counted. Raises `InfrastructureError`."""
        if not offsets:
            return []
        wanted = set(offsets)
        with self._turn():
            records = self._log.read(min(wanted), max(wanted) + 1)
        found = [each for each in records if each.offset in wanted]
        return [Change(each.offset, ChangeSet.model_validate(loads(each.value or b""))) for each in found]

    @contextmanager
    def editing(self, *, of_keys: bool = False) -> Iterator[Editor]:
        """Open the registry to change it, or its keys alone.

        Raises as `Editor` does, and when too many change it at once.
        """
        turns = self._changing[of_keys]
        if not turns.acquire(timeout=_TURN_SECONDS):
            raise InfrastructureError(OVERLOADED, f"{MAX_CHANGES} changes of the registry are under way")
        try:
            with closing(self._open()) as log:
                yield Editor(log)
        finally:
            turns.release()

    def close(self) -> None:
        """Close the log."""
        self._registry.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._reading.acquire(timeout=_TURN_SECONDS):
            raise InfrastructureError(REGISTRY_UNREAD, "other requests wait for Kafka already")
        try:
            yield
        finally:
            self._reading.release()


def tag_of(chain: Chain) -> str:
    """Return a state's tag: the last offset that counted, and its log."""
    return f"{chain.last}-{chain.last_digest[:4].hex()}"
