"""Validators for texts of the registry, whose errors describe the valid form."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator

RETENTION: Final = r"[1-9]\d{0,4}[hd]"
_HOUR_MS: Final = 3_600_000


def matching(pattern: str, message: str) -> AfterValidator:
    """Return the validator of texts that match `pattern` completely."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


def milliseconds(retention: str) -> int:
    """Return the milliseconds of a retention. Raises `ValueError` if it is invalid."""
    if not re.fullmatch(RETENTION, retention):
        raise ValueError("a retention is hours or days: 36h, 30d")
    return int(retention[:-1]) * (24 if retention.endswith("d") else 1) * _HOUR_MS


Retention = Annotated[str, matching(RETENTION, "a retention is hours or days: 36h, 30d")]
