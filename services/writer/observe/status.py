"""What the writer shows of itself: /healthz, /readyz and /metrics."""

import logging
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, time
from typing import Any, Final, Self

import orjson
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from services.writer.model import connection_budget, timings
from services.writer.model.offsets import Partition
from services.writer.observe.database_stats import DatabaseStats
from services.writer.observe.metrics import Metrics
from services.writer.persist import landing
from services.writer.postgres.database import Database
from services.writer.settle.holds import Hold, described
from services.writer.settle.work_order import TaskReport
from shared import wire
from shared.steps import Step

log = logging.getLogger(__name__)

_STATES: Final = ("landing", "draining", "out", "halted")
_RESULTS: Final = ("read", "filtered", "unroutable", "refused", "waiting", "diverted")
_TOO_LARGE: Final = (
    f"parked events are larger than {wire.USER_ERRORS} takes and stay in onramp.outbox: "
    "raise max.message.bytes of that topic (docs/operating.md, An event is too large)"
)
_SESSIONS: Final = ("active", "idle", "idle in transaction", "idle in transaction (aborted)")


class Status:
    """The state of the loop and its metrics.  The loop writes, the HTTP threads read."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.databases: dict[str, str] = {}
        self.holds: Sequence[Mapping[str, str]] = []
        self.refused: dict[Partition, str] = {}
        self.unknown: Mapping[str, int] = {}
        #: What a person should mend although events land.
        self.warning = ""
        self.reasons: Mapping[str, str] = {}
        #: By database, what needs a person and stands in nobody's way.
        self.remarks: dict[str, str] = {}
        self._lag: dict[Partition, int] = {}
        self._on_kafka: dict[str, tuple[int, float | None]] = {}
        self._showing = threading.Lock()
        self._consuming = False
        self._trouble: str | None = "starting"
        self._stands_by = False
        self._batch_since: float | None = None

    def see(
        self, databases: Mapping[str, str], lag: Mapping[Partition, int], refused: Mapping[Partition, str]
    ) -> None:
        """What the loop sees as it goes round, many times a second: the page is made when it is asked for."""
        self.databases, self.refused, self._lag = dict(databases), dict(refused), dict(lag)
        self._consuming = bool({"landing", "draining"} & set(databases.values()))
        out = ", ".join(f"{n} is {s}" for n, s in databases.items() if s != "landing")
        self._trouble = "; ".join(filter(None, (out, self.warning))) or None

    def see_reasons(self, reasons: Mapping[str, str]) -> None:
        """Why databases do not land."""
        self.reasons = dict(reasons)

    def see_unknown(self, unknown: Mapping[str, int]) -> None:
        """Events that wait on Kafka for databases that are not configured: no one can drain them."""
        self.unknown = dict(unknown)
        for name, events in unknown.items():
            self._wait(name, "kafka", events, None)
            log.error(
                "events wait for a database that is not configured: they are kept, and land when it is "
                "configured again under that name",
                extra={"database": name, "waiting": events},
            )

    def see_registry(self, digest: str) -> None:
        """Which registry events are routed by."""
        self.metrics.show(self.metrics.registry_info, {(digest,): 1.0}, max)

    def see_holds(self, holds: Mapping[str, Sequence[Hold]]) -> None:
        """What events wait for in the databases themselves."""
        self.holds = [{"database": name, **each} for name, of in holds.items() for each in described(of)]

    def waits(self, waiting: Mapping[str, tuple[int, float | None]]) -> None:
        """How many events wait for each database on Kafka, and since when the oldest of them."""
        self._on_kafka = dict(waiting)

    def page(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        with self._showing:
            for name, state in self.databases.items():
                for possible in _STATES:
                    self.metrics.database_state.labels(name, possible).set(state == possible)
            self.metrics.show(self.metrics.lag, {_labels(p): n for p, n in self._lag.items()}, operator.add)
            self.metrics.halted_partitions.set(len(self.refused))
            for name, waiting in self._on_kafka.items():
                self._wait(name, "kafka", *waiting)
            self.metrics.holds.clear()
            for each in self.holds:
                self.metrics.holds.labels(each["database"], each["kind"], each["name"], each["state"]).set(1)
            return generate_latest(self.metrics.registry)

    def _wait(self, database: str, where: str, events: int, since: float | None) -> None:
        self.metrics.waiting.labels(database, where).set(events)
        age = 0.0 if since is None else max(time() - since, 0.0)
        self.metrics.oldest_waiting.labels(database, where).set(age)

    def limit(self, database: Database, slots: int) -> None:
        """How many connections a database is asked for."""
        most = connection_budget.most_connections(slots)
        self.metrics.most_connections.labels(database.name).set(min(database.max_connections or most, most))

    def stand_by(self, database: str) -> None:
        """Another writer lands and has the lock in `database`; the empty name: no other one any more."""
        self._stands_by = bool(database)
        self.metrics.standby.set(self._stands_by)
        if database:
            self._trouble = (
                f"another writer lands and has the lock in database {database}: this one stands by"
            )

    def trouble(self, code: str, detail: str) -> None:
        """The loop stands still, and why."""
        self.metrics.failures.labels(code).inc()
        self._consuming, self._trouble = False, f"{code}: {detail}"

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A batch is under way, and for how long."""
        self._batch_since = monotonic()
        try:
            with self.metrics.batch_seconds.time():
                yield
        finally:
            self._batch_since = None

    def batch_seconds(self) -> float | None:
        """How long the batch is under way; None between two batches."""
        since = self._batch_since
        return None if since is None else round(monotonic() - since, 3)

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """Times a phase of a batch."""
        return self.metrics.phase_seconds.labels(name).time()

    def parked(self, events: int) -> None:
        """Events that a database refused."""
        self.metrics.records.labels("parked").inc(events)

    def worked(self, lines: Iterable[TaskReport]) -> None:
        """What tasks did, whatever became of it."""
        for done in (done for line in lines if line.work for done in timings.done(line.work)):
            event_type = _event_type(done.topic, done.table)
            labels = (done.step, done.topic, event_type, done.database, done.table)
            self.metrics.count(self.metrics.step_seconds, labels, done.seconds)
            self.metrics.count(self.metrics.step_rows, labels, done.rows)

    def batch_done(self, lines: Sequence[TaskReport]) -> None:
        """A batch is settled."""
        self.metrics.batches.inc()
        for result in _RESULTS:
            self.metrics.records.labels(result).inc(sum(getattr(line, result) for line in lines))

    def undecided(self, totals: Mapping[tuple[Step, str, str], int]) -> None:
        """What no database counts: by step, topic and outcome."""
        for (step, topic, outcome), n in totals.items():
            labels = (step, topic, _event_type(topic, ""), "", "", outcome)
            self.metrics.count_to(self.metrics.events, labels, n)

    def read(self, database: str, reading: DatabaseStats) -> None:
        """What a database says of itself."""
        for (topic, table, outcome), n in reading.totals.items():
            labels = (Step.PERSIST.value, topic, _event_type(topic, table), database, table, outcome)
            self.metrics.count_to(self.metrics.events, labels, n)
        for (table, remark), n in reading.remarks.items():
            self.metrics.count_to(self.metrics.remarks, (database, table, remark), n)
        self._wait(database, "database", *reading.waiting)
        self._see_too_large(database, reading.too_large)
        for state in {*_SESSIONS, *reading.sessions}:
            self.metrics.connections.labels(database, state).set(reading.sessions.get(state, 0))

    def _see_too_large(self, database: str, events: int) -> None:
        self.metrics.too_large.labels(database).set(events)
        said = {database: f"{events} {_TOO_LARGE}"} if events else {}
        self.remarks = {n: why for n, why in self.remarks.items() if n != database} | said

    def lags(self, ages: Mapping[Partition, float]) -> None:
        """How old the oldest event is that is not settled, in seconds by partition."""
        self.metrics.show(self.metrics.lag_seconds, {_labels(p): s for p, s in ages.items()}, max)

    @property
    def word(self) -> str:
        """What the writer is at, in a word."""
        return "standby" if self._stands_by else "consuming" if self._consuming else "waiting"

    def ready(self) -> tuple[bool, str | None]:
        """Whether the writer consumes, and if not, why."""
        return self._consuming, self._trouble


class StatusServer:
    """Serves a `Status` over HTTP from a thread of its own."""

    def __init__(self, status: Status, host: str, port: int) -> None:
        self._server = ThreadingHTTPServer((host, port), _handler(status))
        self._thread = threading.Thread(target=self._server.serve_forever, name="status", daemon=True)

    @property
    def port(self) -> int:
        """The port that was bound."""
        return self._server.server_port

    def start(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()


def _handler(status: Status) -> type[BaseHTTPRequestHandler]:
    def healthz() -> tuple[HTTPStatus, str, bytes]:
        return HTTPStatus.OK, "application/json", b'{"status":"alive"}'

    def readyz() -> tuple[HTTPStatus, str, bytes]:
        ready, trouble = status.ready()
        body = orjson.dumps(
            {
                "status": status.word,
                "reason": trouble,
                "databases": status.databases,
                "reasons": status.reasons,
                "remarks": status.remarks,
                "batch_seconds": status.batch_seconds(),
                "holds": status.holds,
                "unknown_databases": status.unknown,
                "halted_partitions": {str(p): why for p, why in status.refused.items()},
            }
        )
        # One that stands by is as ready as it can be: a rollout waits for it before it ends the other.
        return (
            HTTPStatus.OK if ready or status.word == "standby" else HTTPStatus.SERVICE_UNAVAILABLE,
            "application/json",
            body,
        )

    def metrics() -> tuple[HTTPStatus, str, bytes]:
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, status.page()

    pages: Mapping[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": metrics,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            known = ", ".join(pages)
            code, kind, body = page() if page else (HTTPStatus.NOT_FOUND, "text/plain", known.encode())
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: probes ask every second."""

    return Handler


def _labels(partition: Partition) -> tuple[str, str]:
    return partition.topic, str(partition.number)


def _event_type(topic: str, table: str) -> str:
    """The event type that a landing table or a topic is named after; empty when neither is."""
    schema, _, name = table.partition(".")
    if schema == landing.SCHEMA:
        return name
    prefix = wire.topic_of("")
    return topic.removeprefix(prefix) if topic.startswith(prefix) else ""
