"""The registry in memory: for tests, and for a gateway that has no file."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from shared.registry.model import EMPTY, Snapshot
from shared.registry.port import Check, no_check

logger = logging.getLogger(__name__)


class MemoryRegistry:
    """Holds what `put` was given, as a file holds what was written."""

    def __init__(self, document: dict[str, Any] | None = None, check: Check = no_check) -> None:
        self._check = check
        self._snapshot = EMPTY
        self._document: dict[str, Any] | None = document
        self.refresh()

    def put(self, document: dict[str, Any]) -> None:
        """Change the source; it holds from the next `refresh` if it is valid."""
        self._document = document

    def snapshot(self) -> Snapshot:
        """What holds now."""
        return self._snapshot

    def refresh(self) -> bool:
        """Take over what was put, if it is valid."""
        try:
            refuse_emptied(self._document or {}, self._snapshot)
            snapshot = Snapshot.model_validate(self._document or {})
            self._check(snapshot)
        except ValueError as e:  # pydantic's ValidationError is one
            logger.error(  # noqa: TRY400 - the reason is the whole story
                "the registry is wrong; the old one stays", extra={"reason": reasons(e)}
            )
            return False
        changed = snapshot.digest != self._snapshot.digest
        self._snapshot = snapshot
        return changed


def refuse_emptied(document: Mapping[str, Any], before: Snapshot) -> None:
    """Raise `ValueError` for a document that says nothing of keys where there were some.

    An empty or cut file looks like that, and in development a door without keys is open.
    """
    if before.keys and "keys" not in document:
        raise ValueError(f"there is no `keys` where there were {len(before.keys)}: `keys: {{}}` revokes all")


def reasons(error: ValueError) -> list[str]:
    """What is wrong and where, without the values (hashes stay out of logs)."""
    if not isinstance(error, ValidationError):
        return [str(error)]
    return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_input=False)]
