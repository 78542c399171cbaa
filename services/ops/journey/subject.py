"""Parses the text that an operator searches: an event's id, or a receipt."""

import re
from typing import Final, NamedTuple

from services.ops.findings import Source
from shared.errors import BAD_QUERY, UserError

_ID: Final = r"[A-Za-z0-9._:\-]{1,128}"
_RECEIPT: Final = r"[A-Za-z0-9._\-]{1,249}/[0-9]{1,10}/[0-9]{1,19}"
#: The pattern of both, for documents and forms.  An id has no slash.
PATTERN: Final = rf"^(?:{_ID}|{_RECEIPT})$"
_LAST_PARTITION: Final = 2**31 - 1
_LAST_OFFSET: Final = 2**63 - 1


class Receipt(NamedTuple):
    """The place on Kafka that an event was accepted at."""

    source: Source
    offset: int

    def __str__(self) -> str:
        return f"{self.source}/{self.offset}"


def subject_of(text: str) -> str | Receipt:
    """Return the receipt or the id in `text`.

    The three parts of a receipt may also be separated by blanks, as `onramp send` prints them.
    Raises `UserError` BAD_QUERY.
    """
    given = "/".join(text.split())
    if re.fullmatch(_ID, given):
        return given
    if re.fullmatch(_RECEIPT, given):
        topic, partition, offset = given.split("/")
        if int(partition) <= _LAST_PARTITION and int(offset) <= _LAST_OFFSET:
            return Receipt(Source(topic, int(partition)), int(offset))
    raise UserError(
        BAD_QUERY,
        "neither an event's id (1 to 128 of A-Z a-z 0-9 . _ : -) nor a receipt (topic/partition/offset)",
    )
