"""Load shapes: packets per second over time, their size and their form.

A packet's size is the bytes of its `data` (through Kafka) or `payload` (through HTTP); the
bytes on the wire, envelope and headers included, are printed next to it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

KAFKA: Final = "kafka"
SINGLE: Final = "single"
BATCH: Final = "batch"
NDJSON: Final = "ndjson-gzip"
SYSLOG: Final = "syslog"
#: The user class of loadtest/locustfile.py that sends so.
USERS: Final = {KAFKA: "Packet", SINGLE: "Single", BATCH: "Batch", NDJSON: "Ndjson", SYSLOG: "Syslog"}

_MINUTE: Final = 60.0
_RAMP_STEPS: Final = 20
_RAMP_FACTOR: Final = 1.25
_RISING_STEPS: Final = 18
_RISING_FACTOR: Final = 1.45


@dataclass(frozen=True, slots=True)
class Step:
    """A rate in packets per second, and its duration."""

    seconds: float
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One run's load.  `connections`: maximum requests in flight; no schedule waits for them."""

    name: str
    via: str
    size: int
    steps: tuple[Step, ...]
    batch: int = 1
    connections: int = 16
    brokers: int = 1
    cold: bool = False
    """Meets a stack that has just started, of its own."""
    breaks: float = 0.0
    """Ends when packets wait for so many seconds, to be sent or to become rows; 0: never."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a form that no user class can send."""
        if self.via not in USERS:
            raise ValueError(f"{self.via!r} is no way to send: {', '.join(USERS)}")
        if self.via in (KAFKA, SINGLE) and self.batch != 1:
            raise ValueError(f"{self.via} sends one packet at a time")

    @property
    def seconds(self) -> float:
        """The duration of the load."""
        return sum(step.seconds for step in self.steps)

    def rate_at(self, second: float) -> float:
        """Return the offered packets per second at this time; after the end, those of the last step."""
        for step in self.steps:
            if second < step.seconds:
                return step.rate
            second -= step.seconds
        return self.steps[-1].rate

    def starts(self) -> Iterator[float]:
        """Yield the start of each request in seconds from the run's start; evenly spaced within a step."""
        began, due = 0.0, 0.0
        for step in self.steps:
            gap = self.batch / step.rate
            # A slow step may be shorter than a request's gap: the rest is carried into the next.
            due = max(due, began)
            while due < began + step.seconds - 1e-9:
                yield due
                due += gap
            began += step.seconds


def _flat(name: str, per_minute: float, **kind: object) -> Callable[[float], Shape]:
    return lambda seconds: Shape(
        name=name,
        steps=(Step(seconds, per_minute / _MINUTE),),
        **kind,  # type: ignore[arg-type]
    )


def _ramp(seconds: float) -> Shape:
    rates = (2_000 * _RAMP_FACTOR**n for n in range(_RAMP_STEPS))
    steps = tuple(Step(seconds / _RAMP_STEPS, rate) for rate in rates)
    return Shape(name="ramp-to-break", via=BATCH, size=250, batch=250, steps=steps, breaks=10.0)


def _rising(seconds: float) -> Shape:
    """From 100 per second to 55,000, or to the machine's limit."""
    rates = (100 * _RISING_FACTOR**n for n in range(_RISING_STEPS))
    steps = tuple(Step(seconds / _RISING_STEPS, rate) for rate in rates)
    return Shape(name=RISING, via=BATCH, size=250, batch=50, steps=steps, breaks=10.0, cold=True)


def _spike(seconds: float) -> Shape:
    usual, spike = 2_000.0, 20_000.0
    steps = (Step(0.4 * seconds, usual), Step(0.1 * seconds, spike), Step(0.5 * seconds, usual))
    return Shape(name="spike", via=BATCH, size=250, batch=100, steps=steps)


#: The published test of the seed system: a topic of six partitions, replication 3.
SEEDS: Final = ("kapow-250b-8k-kafka", "kapow-250b-8k-http", "kapow-15b-80k-kafka", "kapow-15b-80k-http")
#: Meets a cold stack: how long do rows stand still?
RISING: Final = "rising"

_SHAPES: Final[dict[str, Callable[[float], Shape]]] = {
    "warm-up": _flat("warm-up", 60_000, via=BATCH, size=250, batch=50),
    "kapow-250b-8k-kafka": _flat("kapow-250b-8k-kafka", 8_000, via=KAFKA, size=250, brokers=3, connections=2),
    "kapow-250b-8k-http": _flat("kapow-250b-8k-http", 8_000, via=SINGLE, size=250, brokers=3),
    "kapow-15b-80k-kafka": _flat("kapow-15b-80k-kafka", 80_000, via=KAFKA, size=15, brokers=3, connections=2),
    "kapow-15b-80k-http": _flat(
        "kapow-15b-80k-http", 80_000, via=BATCH, size=15, batch=10, brokers=3, connections=32
    ),
    "kapow-250b-x100": _flat("kapow-250b-x100", 800_000, via=BATCH, size=250, batch=500),
    "kapow-15b-x60": _flat("kapow-15b-x60", 4_800_000, via=BATCH, size=15, batch=1_000),
    "steady": _flat("steady", 60_000, via=SINGLE, size=250, connections=64),
    "ndjson": _flat("ndjson", 600_000, via=NDJSON, size=250, batch=500),
    "syslog": _flat("syslog", 120_000, via=SYSLOG, size=100, batch=20, connections=4),
    "ramp-to-break": _ramp,
    RISING: _rising,
    "spike": _spike,
    "soak": _flat("soak", 120_000, via=BATCH, size=250, batch=100),
}
NAMES: Final = tuple(name for name in _SHAPES if name != "warm-up")


def named(name: str, seconds: float, **other: object) -> Shape:
    """Return the shape of this name for `seconds`; `other` replaces its fields.

    Raises `ValueError` for an unknown name.
    """
    if name not in _SHAPES:
        raise ValueError(f"{name!r} is no shape: {', '.join(NAMES)}")
    shape = _SHAPES[name](seconds)
    per_minute = other.pop("per_minute", None)
    if isinstance(per_minute, int | float):
        other["steps"] = (Step(seconds, per_minute / _MINUTE),)
    return replace(shape, **other)  # type: ignore[arg-type]
