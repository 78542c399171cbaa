"""The client's backoff: the wait before a batch is sent again."""

import random
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

#: Maximum seconds of a Retry-After; a proxy may send centuries, the gateway sends seconds.
MAX_RETRY_AFTER: Final = 120.0
_MAX_BACKOFF: Final = 20.0
_MAX_DOUBLINGS: Final = 16
_SECONDS: Final = re.compile(r"[0-9]+", re.ASCII)


def retry_after(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds of a Retry-After header; header names are in lower case, `now` is Unix time."""
    requested = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(requested):
        return min(float(requested), MAX_RETRY_AFTER)
    until = _unix_time(requested)
    if until is None:
        return 0.0
    # By the server's clock: the local one may be minutes off.
    server_now = _unix_time(headers.get("date", ""))
    return min(max(0.0, until - (now if server_now is None else server_now)), MAX_RETRY_AFTER)


def retry_delay(requested: float, attempt: int, first: float) -> float:
    """Return the seconds until the next attempt: `requested` plus a backoff with full jitter.

    Without jitter a thousand clients would retry at the same time.
    """
    backoff = min(first * 2 ** min(attempt, _MAX_DOUBLINGS), _MAX_BACKOFF)
    return requested + random.uniform(0, backoff)  # noqa: S311 - no secret


def _unix_time(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
