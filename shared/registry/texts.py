"""Texts of the registry that have a form: what does not match is told by what would."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator

RETENTION: Final = r"[1-9]\d{0,4}[hd]"
_HOUR_MS: Final = 3_600_000


def matching(pattern: str, message: str) -> AfterValidator:
    """Return the validator of texts that match `pattern` from their first character to their last."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


def milliseconds(retention: str) -> int:
    """Return how long a retention is.  Raises `ValueError`: it is none."""
    if not re.fullmatch(RETENTION, retention):
        raise ValueError("a retention is hours or days: 36h, 30d")
    return int(retention[:-1]) * (24 if retention.endswith("d") else 1) * _HOUR_MS


Retention = Annotated[str, matching(RETENTION, "a retention is hours or days: 36h, 30d")]
