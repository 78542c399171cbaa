"""The registry in memory, for tests."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from shared.registry.entries import EMPTY, Snapshot
from shared.registry.port import Check, no_check

logger = logging.getLogger(__name__)


class MemoryRegistry:
    """Stores the document passed to `put`."""

    def __init__(self, document: dict[str, Any] | None = None, check: Check = no_check) -> None:
        self._check = check
        self._snapshot = EMPTY
        self.is_valid = True
        self._document: dict[str, Any] | None = document
        self._removed: set[tuple[str, str]] = set()
        self.refresh()

    def put(self, document: dict[str, Any]) -> None:
        """Replace the document; the next `refresh` applies it if it is valid."""
        self._document = document

    def snapshot(self) -> Snapshot:
        """Return the current snapshot."""
        return self._snapshot

    @property
    def is_read(self) -> bool:
        """Return True."""
        return True

    @property
    def is_blank(self) -> bool:
        """Return False: a document is never lost."""
        return False

    def has_removed(self, section: str, name: str) -> bool:
        """Return whether a previous document had the entry and the current one does not."""
        return (section, name) in self._removed

    def close(self) -> None:
        """Do nothing."""

    def refresh(self) -> bool:
        """Apply the document if it is valid; return whether the snapshot changed."""
        try:
            snapshot = Snapshot.model_validate(self._document or {})
            self._check(snapshot)
        except ValueError as e:  # pydantic's ValidationError is one
            logger.error(  # noqa: TRY400 - the reason says all
                "registry is invalid; keeping the previous one", extra={"reason": reasons(e)}
            )
            self.is_valid = False
            return False
        self.is_valid = True
        changed = snapshot.digest != self._snapshot.digest
        self._removed = (self._removed | _entries(self._snapshot)) - _entries(snapshot)
        self._snapshot = snapshot
        return changed


def _entries(snapshot: Snapshot) -> set[tuple[str, str]]:
    sections = ((section, getattr(snapshot, section)) for section in Snapshot.model_fields)
    return {(section, name) for section, named in sections if isinstance(named, Mapping) for name in named}


def reasons(error: ValueError) -> list[str]:
    """Return the faults and their places, without values (hashes must not be logged)."""
    if not isinstance(error, ValidationError):
        return [str(error)]
    found = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors(include_input=False)]
    return [f"{place}: {text}" if place else text for place, text in found]
