"""Infers a JSON Schema from samples: the properties common to all of them.

It is a draft for a person, so it is small: types, required fields, and the three formats that imply another
column type. It has no bounds or lists of values, because such guesses break on the next event.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final

from shared.contracts.keywords import kind_of

#: An object with more names than this is a map, whose keys are values and not fields.
_MAX_FIELDS: Final = 500
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")


def _is_date(text: str) -> bool:
    return bool(_DATE.fullmatch(text)) and _parses(date.fromisoformat, text)


def _is_moment(text: str) -> bool:
    return bool(_MOMENT.fullmatch(text)) and _parses(datetime.fromisoformat, text)


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


_FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "date-time": _is_moment,
    "date": _is_date,
    "uuid": _UUID.fullmatch,
}


class Samples:
    """The common properties of the values at one place of all samples."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._formats = set(_FORMATS)
        self._objects = 0
        self._is_map = False
        self._fields: dict[str, Samples] = {}
        self._counts: dict[str, int] = {}
        self._elements: Samples | None = None

    def add(self, value: Any) -> None:
        """Add a sample."""
        self._kinds.add(kind_of(value) if not isinstance(value, float) else "fraction")
        if isinstance(value, str):
            self._formats = {name for name in self._formats if _FORMATS[name](value)}
        elif isinstance(value, dict):
            self._add_object(value)
        elif isinstance(value, list):
            self._elements = self._elements or Samples()
            for each in value:
                self._elements.add(each)

    def _add_object(self, value: Mapping[str, Any]) -> None:
        self._objects += 1
        self._is_map = self._is_map or len(self._fields.keys() | value.keys()) > _MAX_FIELDS
        if self._is_map:
            self._fields.clear()
            return
        for name, each in value.items():
            self._fields.setdefault(name, Samples()).add(each)
            self._counts[name] = self._counts.get(name, 0) + 1

    def schema(self) -> dict[str, Any]:
        """Return the schema; `{}` without samples."""
        kinds = {"number" if kind == "fraction" else kind for kind in self._kinds}
        names = sorted(kinds - ({"integer"} if "number" in kinds else set()), key=lambda n: (n == "null", n))
        if not names:
            return {}
        schema: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
        if "string" in kinds and self._formats:
            schema["format"] = min(self._formats)
        if self._fields:
            schema |= self._of_fields()
        if self._elements is not None and (items := self._elements.schema()):
            schema["items"] = items
        return schema

    def _of_fields(self) -> dict[str, Any]:
        always = [name for name, count in self._counts.items() if count == self._objects]
        fields = {name: each.schema() for name, each in self._fields.items()}
        return ({"required": always} if always else {}) | {"properties": fields}
