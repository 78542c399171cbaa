"""What the writer shows of itself: /healthz, /readyz and /metrics.

Metrics are this process's own registry, not prometheus-client's global one, so that two
writers in one test do not share counters.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

import orjson
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from services.writer.holds import Hold, described
from services.writer.orders import Line
from services.writer.ranges import Partition

# They double the page and no panel reads them.
disable_created_metrics()  # type: ignore[no-untyped-call]

_STATES: Final = ("landing", "draining", "out", "halted")
_RESULTS: Final = ("read", "filtered", "unroutable", "waiting", "diverted")
_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Status:
    """The state of the loop and its metrics.  The loop writes, the HTTP threads read."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._records = Counter(
            "onramp_writer_records",
            "Records read from Kafka, by what the writer did with them.",
            ["result"],
            registry=self.registry,
        )
        self.batches = Counter("onramp_writer_batches", "Batches settled.", registry=self.registry)
        self.failures = Counter(
            "onramp_writer_failed_batches",
            "Batches that must be repeated, by error code.",
            ["code"],
            registry=self.registry,
        )
        self.batch_seconds = Histogram(
            "onramp_writer_batch_seconds",
            "Time from plan to group commit.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.lag = Gauge(
            "onramp_writer_lag_events",
            "Events in Kafka that are not settled.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self._database_state = Gauge(
            "onramp_writer_database_state",
            "1 for the state that a database is in.",
            ["database", "state"],
            registry=self.registry,
        )
        self._halted_partitions = Gauge(
            "onramp_writer_halted_partitions",
            "Partitions that are not read until a person resolves them.",
            registry=self.registry,
        )
        self._held = Gauge(
            "onramp_writer_holds",
            "1 while events wait in their database behind this hold: a blocked table or a paused event type.",
            ["database", "kind", "name", "state"],
            registry=self.registry,
        )
        self.databases: dict[str, str] = {}
        self.holds: Sequence[Mapping[str, str]] = []
        self.refused: dict[Partition, str] = {}
        self._consuming = False
        self._trouble: str | None = "starting"

    def see(
        self, databases: Mapping[str, str], lag: Mapping[Partition, int], refused: Mapping[Partition, str]
    ) -> None:
        """What the loop sees as it goes round."""
        self.databases = dict(databases)
        for name, state in databases.items():
            for possible in _STATES:
                self._database_state.labels(name, possible).set(state == possible)
        for partition, events in lag.items():
            self.lag.labels(*map(str, partition)).set(events)
        self._halted_partitions.set(len(refused))
        self.refused = dict(refused)
        self._consuming = bool({"landing", "draining"} & set(databases.values()))
        out = ", ".join(f"{n} is {s}" for n, s in databases.items() if s != "landing")
        self._trouble = out or None

    def see_holds(self, holds: Mapping[str, Sequence[Hold]]) -> None:
        """What events wait for in the databases themselves."""
        found = [{"database": name, **each} for name, of in holds.items() for each in described(of)]
        if found != self.holds:
            self._held.clear()
            for each in found:
                self._held.labels(each["database"], each["kind"], each["name"], each["state"]).set(1)
        self.holds = found

    def trouble(self, code: str, detail: str) -> None:
        """The loop stands still, and why."""
        self.failures.labels(code).inc()
        self._consuming, self._trouble = False, f"{code}: {detail}"

    def parked(self, events: int) -> None:
        """Events that a database refused."""
        self._records.labels("parked").inc(events)

    def batch_done(self, lines: Sequence[Line]) -> None:
        """A batch is settled."""
        self.batches.inc()
        for result in _RESULTS:
            self._records.labels(result).inc(sum(getattr(line, result) for line in lines))

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
                "status": "consuming" if ready else "waiting",
                "reason": trouble,
                "databases": status.databases,
                "holds": status.holds,
                "halted_partitions": {f"{p.topic}/{p.number}": why for p, why in status.refused.items()},
            }
        )
        return HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, "application/json", body

    def metrics() -> tuple[HTTPStatus, str, bytes]:
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(status.registry)

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
