"""The state of the service: one document, which the driver replaces and threads of HTTP read."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.transform.observe.metrics import TransformMetrics


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
        """Return whether the driver has an epoch and no error."""
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
