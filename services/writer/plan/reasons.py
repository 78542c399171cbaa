"""Why an event fails: one reason is the same for all events that fail for it, and holds no value of them."""

import re
from typing import Final, NamedTuple

from services.writer.plan.rules import TableName
from shared.errors import UserError

_INDEX: Final = re.compile(r"(?<=/)\d+(?=/|$)")
_METADATA: Final = {
    "_id": "/metadata/id",
    "_timestamp": "/metadata/timestamp",
    "_version": "/metadata/version",
    "_event_name": "/event_name",
    "payload": "/payload",
}


class Reason(NamedTuple):
    """A code of the error table, the JSON Pointer with every index of an array as `*`, and where it fails."""

    code: str
    pointer: str
    detail: str
    sqlstate: str = ""
    #: `database.schema.table`; empty if no table was asked.
    destination: str = ""


def refusal(error: UserError) -> Reason:
    """Return why the gateway refuses an event, or why it goes nowhere."""
    return Reason(error.fault.code, pattern(error.pointer), error.detail)


def parked(error: UserError, table: TableName, detail: str, *, in_packet: bool) -> Reason:
    """Return why a table does not take an event; `detail` names that table."""
    pointer = error.pointer or _pointer(error.column, in_packet=in_packet)
    return Reason(error.fault.code, pattern(pointer), detail, error.sqlstate or "", str(table))


def pattern(pointer: str) -> str:
    """Return a pointer that does not tell elements of an array apart."""
    return _INDEX.sub("*", pointer)


def _pointer(column: str | None, *, in_packet: bool) -> str:
    if not column:
        return ""
    if not in_packet and column in _METADATA:
        return _METADATA[column]
    return f"/{'data' if in_packet else 'payload'}/{column}"
