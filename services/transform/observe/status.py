"""The state of the service: one document, which the driver replaces and threads of HTTP read."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from services.transform.observe.metrics import TransformMetrics
from shared.kafka_read.offsets import Partition

#: Samples of ends; at one a second, ten minutes.
_MAX_SAMPLES: Final = 600


@dataclass(slots=True)
class TransformEntry:
    """The state of one transform."""

    state: str
    reason: str = ""
    at: str = ""
    by: str = ""
    version: str = ""
    source_topic: str = ""
    lanes: int = 1
    running_lanes: list[int] = field(default_factory=list)
    lag: dict[str, int] = field(default_factory=dict)
    behind_seconds: float = 0.0
    totals: dict[str, int] = field(default_factory=dict)
    last_failure: str = ""


class Behind:
    """How far a transform is behind: the age of the oldest end of its source that it has not reached."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, dict[Partition, int]]] = deque()

    def seconds(self, ends: Mapping[Partition, int], positions: Mapping[Partition, int], now: float) -> float:
        """Add the present `ends`; return the age of the oldest that `positions` have not reached."""
        self._ends.append((now, dict(ends)))
        while self._ends and all(positions.get(p, 0) >= end for p, end in self._ends[0][1].items()):
            self._ends.popleft()
        if len(self._ends) > _MAX_SAMPLES:  # the oldest stays: its age is the result
            self._ends = deque([self._ends[0], *list(self._ends)[2::2]])
        return now - self._ends[0][0] if self._ends else 0.0


class Status:
    """The service's state and metrics."""

    def __init__(self) -> None:
        self.metrics = TransformMetrics()
        self.epoch: int | None = None
        self.trouble = "starting"
        self._transforms: dict[str, TransformEntry] = {}
        self._updated_at = time.time()

    def update(self, transforms: Mapping[str, TransformEntry]) -> None:
        """Replace the transforms' states."""
        self._transforms = dict(transforms)
        self._updated_at = time.time()

    @property
    def is_ready(self) -> bool:
        """Return whether the driver has an epoch and no trouble."""
        return self.epoch is not None and not self.trouble

    def document(self) -> bytes:
        """Return the answer of /status."""
        document: dict[str, Any] = {
            "epoch": self.epoch,
            "trouble": self.trouble,
            "updated_at": self._updated_at,
            "transforms": self._transforms,
        }
        return orjson.dumps(document)
