"""``onramp.yaml``, the file that people write and `onramp apply` applies: validated as a whole.

No service reads it. Editors, config maps and `mv` replace it in different ways, so a change of it
is detected by `stat`.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from shared.registry import entries, strict_yaml, transforms
from shared.registry.entries import Snapshot

#: Identifies a version of a file: times, size and inode.
Stamp = tuple[int, int, int]
_END: Final = "..."
#: Names in the format of the file.
_FIELDS: Final = sorted(
    {
        field.alias or name
        for each in (*vars(entries).values(), *vars(transforms).values())
        if isinstance(each, type) and issubclass(each, BaseModel)
        for name, field in each.model_fields.items()
    }
)


class RegistryFileError(ValueError):
    """The file is not a valid registry; the message says where."""


def load(path: Path) -> Snapshot:
    """Load the file. Raises `RegistryFileError` with all faults and their places."""
    text = _read(path)
    try:
        document = strict_yaml.loads(text)
    except ValueError as e:
        raise RegistryFileError(f"{path} {e}") from None
    if document is not None and not isinstance(document, dict):
        raise RegistryFileError(f"{path} must hold a mapping")
    try:
        return Snapshot.model_validate(document or {})
    except ValidationError as e:
        reasons = [_describe(path, text, each) for each in e.errors(include_input=False)]
        raise RegistryFileError("; ".join(reasons)) from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise RegistryFileError(f"{path} is not text in UTF-8") from None
    except FileNotFoundError as e:
        raise RegistryFileError(
            f"{path} does not exist: name the registry's file; `onramp export` prints the registry in effect"
        ) from e
    except OSError as e:
        raise RegistryFileError(f"{path} cannot be read: {e.strerror or type(e).__name__}") from e


def placed(path: Path, reason: str) -> str:
    """Return a reason that begins with its place (`event_types.a.schema: …`), with the line added."""
    place, colon, _ = reason.partition(": ")
    line = line_in(path, place.split(".")) if colon else 0
    return f"{path.name}, line {line}: {reason}" if line else reason


def line_in(path: Path, place: Sequence[object]) -> int:
    """Return the line of a place in the file, or of its nearest existing parent; 0 if there is none."""
    try:
        return strict_yaml.line_of(path.read_text("utf-8"), place)
    except (OSError, UnicodeDecodeError):
        return 0


def _describe(path: Path, text: str, error: Any) -> str:
    """Return the fault at a place of the file, with its line and a suggestion; no values."""
    *_, name = where = error["loc"] or ("",)
    reason = f"{'.'.join(map(str, where))}: {error['msg']}"
    if error["type"] == "extra_forbidden":
        reason = f"{'.'.join(map(str, where)):.200}: unknown field; {_advice(str(name))}"
    line = strict_yaml.line_of(text, where)
    return f"{path.name}, line {line}: {reason}" if line else reason


def _advice(name: str) -> str:
    if name in _FIELDS:
        return "it belongs to another part of the file: see docs/registry.md"
    near = get_close_matches(name, _FIELDS, 1)
    return f"did you mean `{near[0]}`?" if near else "docs/registry.md lists the fields"


def ending(text: str) -> int:
    """Return the evidence that the file is complete: 2, YAML's end mark; 1, a whole last line; 0, neither."""
    if text.rstrip("\n").rpartition("\n")[2] == _END:
        return 2
    return int(text.endswith("\n"))


def stamp_of(path: Path) -> Stamp | None:
    """Return a fingerprint of the file's metadata; None if the file is missing."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
