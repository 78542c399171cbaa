"""The gateway's metrics, each declared once; docs are checked against them."""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Self

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.ingest.observe.tallies import CounterTally, HistogramTally
from services.ingest.request import BatchItem, RequestContext
from shared.errors import OnrampError
from shared.process_metrics import ProcessMetrics
from shared.registry import Registry
from shared.registry.entries import AlertLimits, EventType

REGISTRY: Final = CollectorRegistry()
PROCESS: Final = ProcessMetrics(REGISTRY)
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_SIZES: Final = (1, 2, 5, 10, 50, 100, 500, 1000, 5000, 10_000)

REQUESTS: Final = Counter(
    "onramp_ingest_requests", "Requests to /v1/events by status.", ["status"], registry=REGISTRY
)
EVENTS: Final = Counter(
    "onramp_ingest_events",
    "Events by event type, key and outcome: accepted, or the error's code. A type of which none was accepted "
    "yet is `(unknown)`; those above 500 are `(other)`.",
    ["event_type", "key", "outcome"],
    registry=REGISTRY,
)
REQUEST_SECONDS: Final = Histogram(
    "onramp_ingest_request_seconds",
    "Seconds from a request's headers to its answer.",
    buckets=_SECONDS,
    registry=REGISTRY,
)
SEND_SECONDS: Final = Histogram(
    "onramp_ingest_kafka_send_seconds",
    "Seconds from a batch's produce request to its acknowledgement.",
    buckets=_SECONDS,
    registry=REGISTRY,
)
KAFKA_REQUESTS: Final = Counter(
    "onramp_ingest_kafka_requests",
    "Produce requests to Kafka; each carries all batches that wait for its broker.",
    registry=REGISTRY,
)
BATCH_EVENTS: Final = Histogram(
    "onramp_ingest_batch_events", "Events per request.", buckets=_SIZES, registry=REGISTRY
)
INFLIGHT_BYTES: Final = Gauge(
    "onramp_ingest_inflight_bytes",
    "Bytes held by requests and batches.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
INFLIGHT_BYTES_LIMIT: Final = Gauge(
    "onramp_ingest_inflight_bytes_limit",
    "Maximum bytes held by requests and batches; above it requests are answered 503.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
KAFKA_REACHABLE: Final = Gauge(
    "onramp_ingest_kafka_reachable",
    "1 while Kafka answers all workers; checked every ten seconds.",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
PRODUCERS_REPLACED: Final = Counter(
    "onramp_ingest_producers_replaced",
    "Kafka producers replaced after a failed or overdue batch.",
    registry=REGISTRY,
)
KEY_EXPIRY: Final = Gauge(
    "onramp_ingest_key_expiry_timestamp_seconds",
    "Expiry time of a key's last secret (Unix seconds); 0 for a key that no longer expires.",
    ["key"],
    registry=REGISTRY,
    multiprocess_mode="livemax",
)
#: By the field of a type's `alerts`.
TYPE_LIMITS: Final = {
    limit: Gauge(
        f"onramp_ingest_event_type_{limit}",
        f"Value of alerts.{limit} in onramp.yaml; 0 for a type that no longer has it.",
        ["event_type"],
        registry=REGISTRY,
        multiprocess_mode="livemax",
    )
    for limit in AlertLimits.model_fields
}
REGISTRY_REFUSED: Final = Gauge(
    "onramp_registry_refused",
    "Workers that use the previous registry because the current one is invalid.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
CONNECTIONS: Final = Gauge(
    "onramp_ingest_connections",
    "Open HTTP connections, without the port for operators.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
CONNECTIONS_LIMIT: Final = Gauge(
    "onramp_ingest_connections_limit",
    "Maximum number of HTTP connections: from the settings, or from the limit of open files.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
CONNECTIONS_CLOSED: Final = Counter(
    "onramp_ingest_connections_closed",
    "HTTP connections closed at the limit, by reason: replaced by another, or refused.",
    ["reason"],
    registry=REGISTRY,
)
REGISTRY_INFO: Final = Gauge(
    "onramp_registry_info",
    "Workers that have the registry with this digest; 0 for a previous one.",
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

REQUESTS_TALLY: Final = CounterTally(REQUESTS)
EVENTS_TALLY: Final = CounterTally(EVENTS)
CONNECTIONS_CLOSED_TALLY: Final = CounterTally(CONNECTIONS_CLOSED)
KAFKA_REQUESTS_TALLY: Final = CounterTally(KAFKA_REQUESTS)
REQUEST_SECONDS_TALLY: Final = HistogramTally(REQUEST_SECONDS, _SECONDS)
SEND_SECONDS_TALLY: Final = HistogramTally(SEND_SECONDS, _SECONDS)
BATCH_EVENTS_TALLY: Final = HistogramTally(BATCH_EVENTS, _SIZES)

#: Maximum number of event types with their own label: clients may invent any number.
_MAX_TYPES: Final = 500
#: In parentheses, which no event type's name has.
_OTHER: Final = "(other)"
_UNKNOWN: Final = "(unknown)"
ACCEPTED: Final = "accepted"


class RegistryInfo:
    """Shows which registry this worker has; replicas and services that differ show different digests."""

    def __init__(self) -> None:
        self._shown = ""
        self._expiring: set[str] = set()
        self._limited: set[tuple[str, str]] = set()

    def show(self, registry: Registry) -> None:
        """Set the metric of its digest to 1 and of the previous one to 0; show when its keys expire."""
        REGISTRY_REFUSED.set(not registry.is_valid)
        if not registry.is_read:
            return
        snapshot = registry.snapshot()
        if snapshot.digest == self._shown:
            return
        if self._shown:
            REGISTRY_INFO.labels(self._shown).set(0)
        REGISTRY_INFO.labels(snapshot.digest).set(1)
        self._shown = snapshot.digest
        self._show_expiry({name: end for name, key in snapshot.keys.items() if (end := key.last_moment())})
        self._show_limits(snapshot.event_types)

    def _show_expiry(self, ends: Mapping[str, datetime]) -> None:
        for name in self._expiring - ends.keys():
            KEY_EXPIRY.labels(name).set(0)
        for name, end in ends.items():
            KEY_EXPIRY.labels(name).set(end.timestamp())
        self._expiring |= ends.keys()

    def _show_limits(self, types: Mapping[str, EventType]) -> None:
        found = {
            (limit, name): value
            for name, event_type in types.items()
            if event_type.alerts.model_fields_set  # this runs on the event loop, and most types have none
            for limit, value in event_type.alerts
            if value is not None
        }
        for limit, name in self._limited | found.keys():
            TYPE_LIMITS[limit].labels(name).set(found.get((limit, name), 0.0))
        self._limited |= found.keys()


class RequestTimer:
    """A context that counts one request's status and time at its end."""

    __slots__ = ("_started", "status")

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        #: The status of a request whose client left before the answer.
        self.status = "gone"
        return self

    def __exit__(self, *_: object) -> None:
        REQUEST_SECONDS_TALLY.observe(time.perf_counter() - self._started)
        REQUESTS_TALLY.add(self.status)

    def set_status(self, status: int) -> None:
        """Set the HTTP status that the request is counted under."""
        self.status = str(status)


class EventCounts:
    """Counts events of HTTP and syslog by type, key and outcome.

    A type gets its own label when one of its events is accepted: rejected events could have any name, and
    a batch of invented names would leave no labels for real types.
    """

    def __init__(self) -> None:
        self._types: set[str] = set()

    def count(self, producer: str, items: Iterable[BatchItem]) -> None:
        """Count items by their verdict."""
        for item in items:
            outcome = _outcome(item)
            EVENTS_TALLY.add(self._label(item, accepted=outcome is ACCEPTED), producer, outcome)

    def count_unread(self, producer: str, outcome: str) -> None:
        """Count a request that was rejected before its events were known as one event."""
        EVENTS_TALLY.add(_UNKNOWN, producer, outcome)

    def _label(self, item: BatchItem, *, accepted: bool) -> str:
        name = _UNKNOWN if item.envelope is None else item.envelope.event_name
        if name in self._types:
            return name
        if not accepted:
            return _UNKNOWN
        if len(self._types) >= _MAX_TYPES:
            return _OTHER
        self._types.add(name)
        return name


class RequestMetrics:
    """Counts HTTP requests and their events."""

    def __init__(self, events: EventCounts) -> None:
        self._events = events

    def count_items(self, request: RequestContext, items: list[BatchItem]) -> None:
        """Count the items of a request by their verdict."""
        BATCH_EVENTS_TALLY.observe(len(items))
        self._events.count(request.producer, items)

    def count_request(self, request: RequestContext, error: OnrampError) -> None:
        """Count a request that was rejected as a whole as one event."""
        self._events.count_unread(request.producer, error.fault.code)


def _outcome(item: BatchItem) -> str:
    return item.verdict.fault.code if isinstance(item.verdict, OnrampError) else ACCEPTED
