"""The time of receipt as text: a second is formatted once, not for each of its events."""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_NANOSECONDS: Final = 1_000_000_000


def now() -> str:
    """Return the current time in UTC with microseconds, in the format of `datetime.isoformat`."""
    second, rest = divmod(time.time_ns(), _NANOSECONDS)
    return f"{_second(second)}.{rest // 1000:06d}+00:00"


@lru_cache(maxsize=2)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[: -len("+00:00")]
