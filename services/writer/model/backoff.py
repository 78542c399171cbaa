"""The waiting time before something that failed is tried again."""

import random
from typing import Final

_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


def backoff_seconds(failures: int) -> float:
    """Return the seconds to wait after `failures` earlier ones: 0.2 to 5, with 20 % jitter."""
    return _SECONDS[min(failures, len(_SECONDS) - 1)] * random.uniform(0.8, 1.2)  # noqa: S311
