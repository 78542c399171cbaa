"""How long to wait before something is sent again: as asked, within reason, and never all at once."""

import random
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

#: A proxy may ask for centuries; the gateway asks for seconds.
MOST_RETRY_AFTER: Final = 120.0
_MOST_BACKOFF: Final = 20.0
_MOST_DOUBLINGS: Final = 16
_SECONDS: Final = re.compile(r"[0-9]+", re.ASCII)


def retry_after(headers: Mapping[str, str], now: float) -> float:
    """The seconds that an answer asks to wait; its names are in lower case, `now` is Unix time."""
    asked = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        return min(float(asked), MOST_RETRY_AFTER)
    moment = _moment(asked)
    if moment is None:
        return 0.0
    # The server's own clock: ours may be minutes off.
    since = _moment(headers.get("date", ""))
    return min(max(0.0, moment - (now if since is None else since)), MOST_RETRY_AFTER)


def pause(asked: float, attempt: int, first: float) -> float:
    """Full jitter on top of what was asked: a thousand clients must not come back in one moment."""
    backoff = min(first * 2 ** min(attempt, _MOST_DOUBLINGS), _MOST_BACKOFF)
    return asked + random.uniform(0, backoff)  # noqa: S311 - no secret


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
