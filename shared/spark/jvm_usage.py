"""The usage of a driver's JVM."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmUsage:
    """The usage that the driver's JVM reports."""

    pid: int
    slots: int
    heap_bytes: int
    max_heap_bytes: int
    #: Runs and seconds since the JVM started, by garbage collector.
    collections: Mapping[str, tuple[int, float]]
