"""Parses the start of a window: a duration such as `24h`, `30m` or `7d`, or a time in RFC 3339."""

import re
from datetime import datetime
from typing import Final

_SPAN: Final = re.compile(r"([1-9]\d{0,8})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def moment(text: str, now: float) -> float:
    """Return the time in seconds since 1970; `now` has the same unit.

    Raises:
        ValueError: `text` is not a time, or it is in the future.
    """
    if span := _SPAN.fullmatch(text):
        return max(now - int(span[1]) * _SECONDS[span[2]], 0.0)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!a} is neither a duration like 24h, 30m or 7d nor a time like 2026-01-31T08:00:00Z"
        ) from None
    if at.tzinfo is None:
        raise ValueError(f"{text!a} has no offset from UTC: end it with Z, or with +01:00")
    if at.timestamp() > now:
        raise ValueError(f"{text!a} is in the future")
    return max(at.timestamp(), 0.0)
