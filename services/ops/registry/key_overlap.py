"""The overlap of a key's rotation: how long its old secrets remain valid."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

#: A span of minutes, hours or days.
SPAN: Final = r"\d{1,4}[mhd]"
DEFAULT_OVERLAP: Final = "24h"
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def end_of_overlap(overlap: str) -> datetime:
    """Return the time at which old secrets expire after a rotation now. Raises `ValueError`."""
    if not re.fullmatch(SPAN, overlap):
        raise ValueError("minutes, hours or days are expected: 30m, 24h, 7d")
    return datetime.now(UTC) + timedelta(**{_UNITS[overlap[-1]]: int(overlap[:-1])})
