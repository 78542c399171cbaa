"""How a database is: up, out until it is asked again, or halted until a person resolves it."""

import random
import time
from dataclasses import dataclass
from typing import Final

_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Health:
    """What the driver knows of one database."""

    up: bool = False
    halted: str | None = None
    #: The halt is noted in the database, where a person resolves it.
    noted: bool = False
    #: A person wants what is missing landed again from Kafka.
    replay: bool = False
    failures: int = 0
    again_at: float = 0.0

    def is_out(self) -> None:
        """It failed: it is asked again after a growing pause (its breaker)."""
        pause = _PAUSES[min(self.failures, len(_PAUSES) - 1)] * random.uniform(0.8, 1.2)  # noqa: S311
        self.up, self.failures, self.again_at = False, self.failures + 1, time.monotonic() + pause
