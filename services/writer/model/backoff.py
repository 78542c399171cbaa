"""How long to wait before something that failed is tried again."""

import random
from typing import Final

_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


def backoff_seconds(failures: int) -> float:
    """Seconds to wait after so many failures before this one: growing, bounded, and never in step."""
    return _SECONDS[min(failures, len(_SECONDS) - 1)] * random.uniform(0.8, 1.2)  # noqa: S311
