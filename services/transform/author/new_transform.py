"""Writes the files of a new transform: a function, and a test whose event has the shape of a real one."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from services.transform.author.example_tests import AuthorFileError, source_path, tests_path
from shared.mask import masked

_SOURCE: Final = '''\
"""Makes events of {source_type}."""


def transform(event, lookup):
    """Return the event to emit, a list of them, or None to drop the event.

    `lookup(name, key)` returns the row of a lookup as a dict, or None without one.
    """
    payload = event["payload"]
    return None
'''
_TESTS: Final = """\
# Run by `onramp transforms test {name}`, and by each deploy. The event has the shape of a real {source_type},
# and none of its values: letters are a and A, digits are 9, personal fields are ***.
# `expect` is null (the event is dropped), an output, a list of them, or {{error: NAME}}.
"""


def write_files(
    folder: Path, name: str, source_type: str, event: bytes, personal: Collection[str]
) -> tuple[Path, Path]:
    """Write the function and its test; return their paths.  Raise `AuthorFileError` if one exists."""
    paths = source_path(folder, name), tests_path(folder, name)
    for path in paths:
        if path.exists():
            raise AuthorFileError(f"{path} exists: choose another name, or remove it")
    given = example_event(event, personal)
    test = [{"name": f"a {source_type} is dropped", "given": given, "expect": None}]
    texts = (
        _SOURCE.format(source_type=source_type),
        _TESTS.format(name=name, source_type=source_type)
        + yaml.safe_dump(test, sort_keys=False, allow_unicode=True, width=100),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, "utf-8")
    except OSError as e:
        raise AuthorFileError(f"{folder} cannot be written: {e.strerror or type(e).__name__}") from None
    return paths


def example_event(event: bytes, personal: Collection[str]) -> dict[str, Any]:
    """Return an event's shape with the types of its values: a masked number is a number of nines."""
    document: dict[str, Any] = _typed(orjson.loads(event), masked(event, personal))
    document["metadata"] = {"id": "test", "timestamp": "2026-01-01T00:00:00Z", "version": "1"}
    return document


def _typed(value: Any, mask: Any) -> Any:
    if isinstance(value, dict) and isinstance(mask, dict):
        return {name: _typed(value[name], mask[name]) for name in mask}
    if isinstance(value, list) and isinstance(mask, list):
        return [_typed(each, shape) for each, shape in zip(value, mask, strict=False)]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and isinstance(mask, str):
        try:
            return orjson.loads(mask)
        except orjson.JSONDecodeError:  # a personal field, or an exponent
            return 0
    return mask
