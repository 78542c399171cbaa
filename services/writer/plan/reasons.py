"""Reasons why events fail: events with the same fault share one reason, which contains no value of them."""

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
    """An error code, the JSON Pointer with array indices replaced by `*`, and the place of failure."""

    code: str
    pointer: str
    detail: str
    sqlstate: str = ""
    #: `database.schema.table`; empty if no table was tried.
    destination: str = ""


def refusal(error: UserError) -> Reason:
    """Return the reason why the gateway refuses an event, or why an event has no destination."""
    return Reason(error.fault.code, pattern(error.pointer), error.detail)


def parked(error: UserError, table: TableName, detail: str, *, in_packet: bool) -> Reason:
    """Return the reason why a table rejects an event; `detail` names that table."""
    pointer = error.pointer or _pointer(error.column, in_packet=in_packet)
    return Reason(error.fault.code, pattern(pointer), detail, error.sqlstate or "", str(table))


def pattern(pointer: str) -> str:
    """Return `pointer` with the indices of arrays replaced by `*`."""
    return _INDEX.sub("*", pointer)


def _pointer(column: str | None, *, in_packet: bool) -> str:
    if not column:
        return ""
    if not in_packet and column in _METADATA:
        return _METADATA[column]
    return f"/{'data' if in_packet else 'payload'}/{column}"
