"""The registry as a file, ``onramp.yaml``: validated as a whole, reloaded when it changes.

A file is replaced by editors, config maps and `mv` in as many ways, so a change is whatever
`stat` says.  Whatever is wrong with it, the last valid snapshot stays in place, loudly and
once per change, and it is checked again: a registry that stopped reloading silently would keep
accepting keys that were removed.
"""

import logging
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from shared.registry import model, strict_yaml
from shared.registry.memory import refuse_emptied
from shared.registry.model import EMPTY, Snapshot
from shared.registry.port import Check, no_check

logger = logging.getLogger(__name__)

#: By which it is told that a file is another: times, size and inode.
Stamp = tuple[int, int, int]
#: Equal to no file's: it is read again at the next look.
_UNREAD: Final = (-1, -1, -1)
_END: Final = "..."
#: As people write them.
_FIELDS: Final = sorted(
    {
        field.alias or name
        for each in vars(model).values()
        if isinstance(each, type) and issubclass(each, BaseModel)
        for name, field in each.model_fields.items()
    }
)


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
        self._stamp: Stamp | None = stamp_of(path)
        if named and self._stamp is None:
            raise RegistryFileError(f"{path} is not there: write it, or leave ONRAMP_REGISTRY_FILE out")
        self._snapshot, self._ending = EMPTY, 0
        self._logged = ""
        if self._stamp:
            text = _read(path)
            self._snapshot, self._ending = _snapshot_of(path, text, EMPTY, check), ending(text)

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
        stamp = stamp_of(self._path)
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

    def _take_over(self, stamp: Stamp | None) -> bool:
        text = _read(self._path)
        if ending(text) < self._ending:
            raise RegistryFileError(
                f"{self._path} does not end as before: it was cut, or is still being written"
            )
        snapshot = _snapshot_of(self._path, text, self._snapshot, self._check)
        changed = snapshot.digest != self._snapshot.digest
        self._snapshot, self._ending, self._stamp, self._logged = snapshot, ending(text), stamp, ""
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
    except ValidationError as e:
        told = [_told(path, text, each) for each in e.errors(include_input=False)]
        raise RegistryFileError("; ".join(told)) from None
    except ValueError as e:
        raise RegistryFileError(placed(path, str(e))) from None
    return snapshot


def placed(path: Path, reason: str) -> str:
    """Return a reason that begins with its place in the file (`event_types.a.schema: …`) with its line."""
    place, colon, _ = reason.partition(": ")
    line = line_in(path, place.split(".")) if colon else 0
    return f"{path.name}, line {line}: {reason}" if line else reason


def line_in(path: Path, place: Sequence[object]) -> int:
    """Return the line of a place in the file, or of what is there of it; 0 when that is nothing."""
    try:
        return strict_yaml.line_of(path.read_text("utf-8"), place)
    except (OSError, UnicodeDecodeError):
        return 0


def _told(path: Path, text: str, error: Any) -> str:
    """Return what is wrong at a place of the file, its line, and what was probably meant; no values."""
    *_, name = where = error["loc"] or ("",)
    said = f"{'.'.join(map(str, where))}: {error['msg']}"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(str(name), _FIELDS, 1)
        advice = f"did you mean `{near[0]}`?" if near else "docs/registry.md lists what there is"
        said = f"{'.'.join(map(str, where)):.200}: there is no such field; {advice}"
    line = strict_yaml.line_of(text, where)
    return f"{path.name}, line {line}: {said}" if line else said


def ending(text: str) -> int:
    """Return how surely the file is whole: 2, YAML's end mark; 1, a whole last line; 0, neither."""
    if text.rstrip("\n").rpartition("\n")[2] == _END:
        return 2
    return int(text.endswith("\n"))


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when the file does; None when it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
