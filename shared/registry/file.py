"""The registry as a file, ``onramp.yaml``: validated as a whole, reloaded when it changes.

A file is replaced by editors, config maps and `mv` in as many ways, so a change is whatever
`stat` says; a file that cannot be read or is wrong leaves the last valid snapshot in place,
loudly and once per change.
"""

import logging
from pathlib import Path
from typing import Any

import yaml

from shared.registry.memory import reasons
from shared.registry.model import EMPTY, Snapshot
from shared.registry.port import Check, no_check

logger = logging.getLogger(__name__)

_Stamp = tuple[int, int, int] | None


class RegistryFileError(ValueError):
    """The file is not a valid registry; the message says where."""


class FileRegistry:
    """Reads one file; a file that is not there is an empty registry."""

    def __init__(self, path: Path, check: Check = no_check) -> None:
        """Load the file.

        Raises:
            RegistryFileError: it is there and wrong; a service must not start on half of it.
        """
        self._path = path
        self._check = check
        self._stamp: _Stamp = _stamp_of(path)
        self._snapshot = load(path, check) if self._stamp else EMPTY

    def snapshot(self) -> Snapshot:
        """What holds now."""
        return self._snapshot

    def refresh(self) -> bool:
        """Read the file again if it changed; a wrong or missing one changes nothing."""
        stamp = _stamp_of(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            snapshot = load(self._path, self._check)
        except RegistryFileError as e:
            logger.error(  # noqa: TRY400 - the reason is the whole story
                "the registry is wrong; the old one stays", extra={"reason": str(e)}
            )
            return False
        changed = snapshot.digest != self._snapshot.digest
        self._snapshot = snapshot
        if changed:
            logger.info("registry loaded", extra={"digest": snapshot.digest})
        return changed


def load(path: Path, check: Check = no_check) -> Snapshot:
    """The file's snapshot.  Raises `RegistryFileError` with every place that is wrong."""
    try:
        document: Any = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise RegistryFileError(f"{path} cannot be read: {type(e).__name__}") from e
    except yaml.YAMLError as e:
        raise RegistryFileError(f"{path} is not YAML: {_place(e)}") from None
    if document is not None and not isinstance(document, dict):
        raise RegistryFileError(f"{path} must hold a mapping")
    try:
        snapshot = Snapshot.model_validate(document or {})
        check(snapshot)
    except ValueError as e:  # pydantic's ValidationError is one
        raise RegistryFileError("; ".join(reasons(e))) from None
    return snapshot


def _stamp_of(path: Path) -> _Stamp:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else "unreadable"
