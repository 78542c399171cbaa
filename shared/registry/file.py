"""The registry as a file, ``onramp.yaml``: validated as a whole, reloaded when it changes.

A file is replaced by editors, config maps and `mv` in as many ways, so a change is whatever
`stat` says.  Whatever is wrong with it, the last valid snapshot stays in place, loudly and
once per change, and it is checked again: a registry that stopped reloading silently would keep
accepting keys that were removed.
"""

import logging
from pathlib import Path
from typing import Final

from shared.registry import strict_yaml
from shared.registry.memory import reasons, refuse_emptied
from shared.registry.model import EMPTY, Snapshot
from shared.registry.port import Check, no_check

logger = logging.getLogger(__name__)

_Stamp = tuple[int, int, int] | None
#: Equal to no file's: it is read again at the next look.
_UNREAD: Final = (-1, -1, -1)
_END: Final = "..."


class RegistryFileError(ValueError):
    """The file is not a valid registry; the message says where."""


class UnreadableFileError(RegistryFileError):
    """The file's content is not known, which may pass without the file changing."""


class FileRegistry:
    """Reads one file.  One that is not there is an empty registry, unless somebody `named` it."""

    def __init__(self, path: Path, check: Check = no_check, *, named: bool = False) -> None:
        """Load the file.

        Raises:
            RegistryFileError: it is wrong, or named and not there; a service must not start
                on half of it, nor accept everybody because of a misspelt path.
        """
        self._path = path
        self._check = check
        self._stamp: _Stamp = _stamp_of(path)
        if named and self._stamp is None:
            raise RegistryFileError(f"{path} is not there: write it, or leave ONRAMP_REGISTRY_FILE out")
        self._snapshot, self._ending = EMPTY, 0
        self._logged = ""
        if self._stamp:
            text = _read(path)
            self._snapshot, self._ending = _snapshot_of(path, text, EMPTY, check), _ending(text)

    def snapshot(self) -> Snapshot:
        """Return the present snapshot.  Costs nothing."""
        return self._snapshot

    @property
    def is_read(self) -> bool:
        """Always: it is read before there is one."""
        return True

    def close(self) -> None:
        """Nothing is held."""

    @property
    def is_valid(self) -> bool:
        """Whether the snapshot is what the file says."""
        return not self._logged

    def refresh(self) -> bool:
        """Read the file again if it changed; return whether the snapshot changed.  Never raises."""
        stamp = _stamp_of(self._path)
        if stamp == self._stamp:
            return False
        try:
            return self._take_over(stamp)
        except UnreadableFileError as e:
            self._stamp = None if stamp is None else _UNREAD
            self._log(str(e))
        except RegistryFileError as e:
            self._stamp = stamp
            self._logged = ""  # each change is logged once, also for the same reason
            self._log(str(e))
        except Exception as e:  # noqa: BLE001 - whatever it is, the file must be checked again
            self._stamp = _UNREAD
            self._log(type(e).__name__)
        return False

    def _take_over(self, stamp: _Stamp) -> bool:
        text = _read(self._path)
        if _ending(text) < self._ending:
            raise RegistryFileError(
                f"{self._path} does not end as before: it was cut, or is still being written"
            )
        snapshot = _snapshot_of(self._path, text, self._snapshot, self._check)
        changed = snapshot.digest != self._snapshot.digest
        self._snapshot, self._ending, self._stamp, self._logged = snapshot, _ending(text), stamp, ""
        if changed:
            logger.info("registry loaded", extra={"digest": snapshot.digest})
        return changed

    def _log(self, reason: str) -> None:
        if reason != self._logged:
            logger.error("the registry is wrong; the old one stays", extra={"reason": reason})
        self._logged = reason


def load(path: Path, check: Check = no_check) -> Snapshot:
    """Load the file.  Raises `RegistryFileError` with all that is wrong and where."""
    return _snapshot_of(path, _read(path), EMPTY, check)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise RegistryFileError(f"{path} is not text in UTF-8") from None
    except OSError as e:
        raise UnreadableFileError(f"{path} cannot be read: {type(e).__name__}") from e


def _snapshot_of(path: Path, text: str, before: Snapshot, check: Check) -> Snapshot:
    try:
        document = strict_yaml.loads(text)
    except ValueError as e:
        raise RegistryFileError(f"{path} {e}") from None
    if document is not None and not isinstance(document, dict):
        raise RegistryFileError(f"{path} must hold a mapping")
    try:
        refuse_emptied(document or {}, before)
        snapshot = Snapshot.model_validate(document or {})
        check(snapshot)
    except ValueError as e:  # pydantic's ValidationError is one
        raise RegistryFileError("; ".join(reasons(e))) from None
    return snapshot


def _ending(text: str) -> int:
    """Return how surely the file is whole: 2, YAML's end mark; 1, a whole last line; 0, neither."""
    if text.rstrip("\n").rpartition("\n")[2] == _END:
        return 2
    return int(text.endswith("\n"))


def _stamp_of(path: Path) -> _Stamp:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
