"""What the gateway counts: every metric is declared here once, and docs are checked against it.

With several workers each process counts in files of a shared folder and any of them
answers ``/metrics`` for all (`PROMETHEUS_MULTIPROC_DIR`, set by `__main__`).
"""

import os
import time
from pathlib import Path
from typing import Final, Self

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from services.ingest.observe.tallies import Counted, Spread, fold
from services.ingest.request import BatchItem, RequestContext
from shared.errors import OnrampError

REGISTRY: Final = CollectorRegistry()
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_SIZES: Final = (1, 2, 5, 10, 50, 100, 500, 1000, 5000, 10_000)

REQUESTS: Final = Counter(
    "onramp_ingest_requests", "Requests to /v1/events by status.", ["status"], registry=REGISTRY
)
EVENTS: Final = Counter(
    "onramp_ingest_events",
    "Events by event type, key and outcome: accepted, or the error's code.",
    ["event_name", "key", "outcome"],
    registry=REGISTRY,
)
REQUEST_SECONDS: Final = Histogram(
    "onramp_ingest_request_seconds",
    "From a request's headers to its answer.",
    buckets=_SECONDS,
    registry=REGISTRY,
)
SEND_SECONDS: Final = Histogram(
    "onramp_ingest_kafka_send_seconds",
    "From a batch's produce request to its acknowledgement.",
    buckets=_SECONDS,
    registry=REGISTRY,
)
KAFKA_REQUESTS: Final = Counter(
    "onramp_ingest_kafka_requests",
    "Produce requests to Kafka; each takes along what waits for its broker.",
    registry=REGISTRY,
)
BATCH_EVENTS: Final = Histogram(
    "onramp_ingest_batch_events", "Events per request.", buckets=_SIZES, registry=REGISTRY
)
INFLIGHT_BYTES: Final = Gauge(
    "onramp_ingest_inflight_bytes",
    "Bytes that requests and batches hold now.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
REGISTRY_INFO: Final = Gauge(
    "onramp_registry_info",
    "Workers that have the registry with this digest; 0 for one that they had before.",
    ["digest"],
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
SYSLOG_MESSAGES: Final = Counter(
    "onramp_ingest_syslog_messages",
    "Syslog messages by transport and outcome: accepted, lost, limited or refused.",
    ["transport", "outcome"],
    registry=REGISTRY,
)

REQUESTS_SEEN: Final = Counted(REQUESTS)
EVENTS_SEEN: Final = Counted(EVENTS)
KAFKA_REQUESTS_SEEN: Final = Counted(KAFKA_REQUESTS)
REQUEST_SPREAD: Final = Spread(REQUEST_SECONDS, _SECONDS)
SEND_SPREAD: Final = Spread(SEND_SECONDS, _SECONDS)
BATCH_SPREAD: Final = Spread(BATCH_EVENTS, _SIZES)

#: A label for each new name until there are this many: names come from clients.
_MOST_NAMES: Final = 500
_OTHER: Final = "other"
_UNKNOWN: Final = "unknown"
ACCEPTED: Final = "accepted"


def exposition() -> bytes:
    """All metrics as Prometheus reads them; of all workers when there are several."""
    fold()
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder is None:
        return generate_latest(REGISTRY)
    _reap(Path(folder))
    everyone = CollectorRegistry()
    MultiProcessCollector(everyone, path=folder)  # type: ignore[no-untyped-call]
    return generate_latest(everyone)


def _reap(folder: Path) -> None:
    """Forget the live gauges of workers that died: uvicorn does not tell when one does."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not Path(f"/proc/{pid}").exists():
            mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]


class RegistryInfo:
    """Shows which registry this worker has; copies and services that differ show different digests."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, digest: str) -> None:
        """From now on it is this one."""
        if digest == self._shown:
            return
        if self._shown:
            REGISTRY_INFO.labels(self._shown).set(0)
        REGISTRY_INFO.labels(digest).set(1)
        self._shown = digest


class Request:
    """One request's status and time; a context that counts them at its end."""

    __slots__ = ("_began", "status")

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        #: Of who left before there was an answer.
        self.status = "gone"
        return self

    def __exit__(self, *_: object) -> None:
        REQUEST_SPREAD.observe(time.perf_counter() - self._began)
        REQUESTS_SEEN.add(self.status)

    def answered(self, status: int) -> None:
        """It was answered."""
        self.status = str(status)


class Seen:
    """Counts events for the endpoint, with a label for so many names alone."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def judged(self, arrival: RequestContext, items: list[BatchItem]) -> None:
        """Count the items of a request by their verdict."""
        BATCH_SPREAD.observe(len(items))
        producer = arrival.producer
        for item in items:
            EVENTS_SEEN.add(self._labelled(_name(item)), producer, _outcome(item))

    def refused(self, arrival: RequestContext, refusal: OnrampError) -> None:
        """Count a request that was refused as a whole as one event."""
        EVENTS_SEEN.add(self._labelled(_UNKNOWN), arrival.producer, refusal.fault.code)

    def _labelled(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                return _OTHER
            self._names.add(name)
        return name


def _name(item: BatchItem) -> str:
    return _UNKNOWN if item.envelope is None else item.envelope.event_name


def _outcome(item: BatchItem) -> str:
    return item.verdict.fault.code if isinstance(item.verdict, OnrampError) else ACCEPTED
