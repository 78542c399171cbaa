"""The form of a fix: its steps as fields, and as JSON, both ways.

A step that the fields cannot express stays JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from services.ops.fixes import exact
from services.ops.fixes.steps import MAX_STEPS, Fix
from shared.errors import BAD_FIX, OnrampError, UserError


class Kind(NamedTuple):
    """A kind of step: its title, and the label of its argument, which is empty without one."""

    title: str
    argument: str = ""
    has_zone: bool = False
    has_place: bool = True


KINDS: Final[Mapping[str, Kind]] = {
    "": Kind("Choose a step", has_place=False),
    "number": Kind("Text with a decimal point → number"),
    "comma": Kind("Text with a decimal comma → number"),
    "text": Kind("Value → text"),
    "bool": Kind("Value → true or false"),
    "moment": Kind("Text → date and time", "Format, such as %d.%m.%Y %H:%M (empty: ISO 8601)", has_zone=True),
    "seconds": Kind("Seconds since 1970 → date and time"),
    "millis": Kind("Milliseconds since 1970 → date and time"),
    "rename": Kind("Rename the field", "New place (JSON Pointer)"),
    "default": Kind("Value where it is missing or null", "Value (JSON)"),
    "drop": Kind("Drop the field"),
    "patch": Kind("JSON Patch", "Operations (JSON, RFC 6902)", has_place=False),
}
_CASTS: Final[Mapping[str, Mapping[str, str]]] = {
    "number": {"to": "number"},
    "comma": {"to": "number", "decimal": ","},
    "text": {"to": "text"},
    "bool": {"to": "bool"},
    "seconds": {"to": "date-time", "unit": "s"},
    "millis": {"to": "date-time", "unit": "ms"},
}


class Row(NamedTuple):
    """A step as fields."""

    kind: str = ""
    place: str = ""
    argument: str = ""
    zone: str = ""


class FixForm(NamedTuple):
    """The typed fields of a fix; `json` is used instead of the rows if it has text."""

    rows: Sequence[Row] = (Row(),)
    json: str = ""
    to: str = ""
    with_triggers: bool = False

    @property
    def text(self) -> str | None:
        """Return the fix as it is stored, or None without a step.  Raises `UserError` BAD_FIX."""
        steps = _parsed(self.json, "the JSON") if self.json.strip() else self._steps
        return Fix(steps).text if steps else None

    @property
    def as_json(self) -> str:
        """Return the fix as JSON in lines, or an empty text if it is incomplete."""
        try:
            found = exact.loads((self.text or "[]").encode())
        except OnrampError:
            return ""
        return (
            "[\n" + ",\n".join(f"  {exact.dumps(each).decode()}" for each in found) + "\n]" if found else ""
        )

    @property
    def _steps(self) -> list[Any]:
        return [_step_of(row, number) for number, row in enumerate(self.rows, 1) if row.kind]


def form_of(fields: Mapping[str, str], place: str) -> FixForm:
    """Return the form that was sent; `place` is of the field at fault."""
    rows = [
        Row(*(fields.get(f"{name}-{number}", "") for name in Row._fields))
        for number in range(MAX_STEPS)
        if f"kind-{number}" in fields
    ]
    if fields.get("press") == "add" and len(rows) < MAX_STEPS:
        rows.append(Row(place=place))
    if fields.get("press", "").startswith("drop-"):
        rows = [row for number, row in enumerate(rows) if fields["press"] != f"drop-{number}"]
    return FixForm(
        rows or [Row(place=place)],
        fields.get("json", ""),
        fields.get("to", "").strip(),
        "with_triggers" in fields,
    )


def form_of_plan(fix: str | None, to: str | None, place: str, *, with_triggers: bool) -> FixForm:
    """Return the form of a stored plan."""
    rows: list[Row] = []
    steps = exact.loads(fix.encode()) if fix else []
    for step in steps:
        if (row := _row_of(step)) is None:
            return FixForm([Row(place=place)], fix or "", to or "", with_triggers)
        rows.append(row)
    return FixForm(rows or [Row(place=place)], "", to or "", with_triggers)


def _step_of(row: Row, number: int) -> dict[str, Any]:
    kind, place, argument = row.kind, row.place.strip(), row.argument
    if kind in _CASTS:
        return {"cast": place, **_CASTS[kind]}
    if kind == "moment":
        given = {"format": argument.strip(), "zone": row.zone.strip()}
        return {"cast": place, "to": "date-time", **{name: value for name, value in given.items() if value}}
    if kind == "rename":
        return {"rename": place, "to": argument.strip()}
    if kind == "default":
        return {"default": place, "value": _parsed(argument, f"step {number}: the value")}
    if kind == "drop":
        return {"drop": place}
    if kind == "patch":
        return {"patch": _parsed(argument, f"step {number}: the patch")}
    raise UserError(BAD_FIX, f"step {number}: choose a kind from the list")


def _row_of(step: Any) -> Row | None:
    """Return the fields that make this very step, or None."""
    if not isinstance(step, dict):
        return None
    rows = [Row("drop", str(step.get("drop", "")))]
    if "cast" in step:
        rows = [Row(kind, str(step["cast"])) for kind in _CASTS]
        rows.append(Row("moment", str(step["cast"]), str(step.get("format", "")), str(step.get("zone", ""))))
    elif "rename" in step:
        rows = [Row("rename", str(step["rename"]), str(step.get("to", "")))]
    elif "default" in step:
        rows = [Row("default", str(step["default"]), exact.dumps(step.get("value")).decode())]
    elif "patch" in step:
        rows = [Row("patch", "", exact.dumps(step["patch"]).decode())]
    return next((row for row in rows if exact.dumps(_step_of(row, 1)) == exact.dumps(step)), None)


def _parsed(text: str, name: str) -> Any:
    try:
        return exact.loads(text.encode())
    except (UserError, UnicodeEncodeError):
        raise UserError(BAD_FIX, f"{name} is not JSON") from None
