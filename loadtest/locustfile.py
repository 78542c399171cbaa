"""Locust's users: HTTP single events, batches, NDJSON with gzip, syslog, packets straight to Kafka.

Started by ``python -m loadtest.run``, which says what to send and where, writes the history,
and verifies afterwards.  Response times that locust shows count from the intended start.
"""

import time
from ssl import SSLContext
from typing import Any, ClassVar

import gevent
import orjson
from confluent_kafka import KafkaError, Message, Producer
from gevent import socket, ssl
from locust import FastHttpUser, LoadTestShape, User, events, task
from locust.contrib.fasthttp import ResponseContextManager

from loadtest import generator
from loadtest.history import OK, REFUSED, UNKNOWN
from loadtest.target import way_to
from shared import wire

LOAD = generator.from_environment()
SHAPE = LOAD.order.shape

_ACCEPTED = 202
_SOME_ACCEPTED = 207
_POLL_SECONDS = 0.002
_DRAIN_SECONDS = 30.0


class _Open(User):
    """Takes the next start, waits for its moment, sends."""

    abstract = True

    @task
    def turn(self) -> None:
        """One request after the other; after the schedule's end, idle until the shape ends the run.

        A loop of its own: locust's way from one task to the next costs more than a packet.
        """
        while (intended := LOAD.next_start()) is not None:
            early = intended - time.monotonic()
            if early > 0:
                gevent.sleep(early)
            LOAD.busy += 1
            try:
                self.send(intended)
            finally:
                LOAD.busy -= 1
        gevent.sleep(0.5)

    def send(self, intended: float) -> None:
        """Send one request and note its outcome."""
        raise NotImplementedError


def _trusting(cafile: str | None = None) -> SSLContext:
    """Use the CAs that this machine trusts."""
    return ssl.create_default_context(cafile=LOAD.order.ca_file or cafile)


class _Http(_Open, FastHttpUser):
    abstract = True
    network_timeout = 30.0
    connection_timeout = 10.0
    insecure = False  # The API key must not go to an impostor of the gateway.
    ssl_context_factory = staticmethod(_trusting)

    def on_start(self) -> None:
        """The headers are the same for every request."""
        self._headers = {"Content-Type": LOAD.bodies.content_type, "Accept-Encoding": "identity"}
        if LOAD.order.api_key:
            self._headers["Authorization"] = f"Bearer {LOAD.order.api_key}"
        if SHAPE.via == "ndjson-gzip":
            self._headers["Content-Encoding"] = "gzip"

    def send(self, intended: float) -> None:
        """POST, and count only 202 as a success."""
        first = LOAD.numbers()
        body = LOAD.bodies.body(first)
        began = time.monotonic()
        with self.client.post(
            "/v1/events", data=body, headers=self._headers, name=SHAPE.via, catch_response=True
        ) as answer:
            ended = time.monotonic()
            answer.request_meta["response_time"] = 1000 * (ended - intended)
            if answer.status_code != _ACCEPTED:
                answer.failure(f"status {answer.status_code}")
            _note_answer(answer, first, (intended, began, ended), len(body))


def _note_answer(
    answer: ResponseContextManager, first: int, times: tuple[float, float, float], size: int
) -> None:
    """Return the outcomes of an answer's packets.  Only a definite refusal is one; no answer is unknown."""
    status = answer.status_code
    if status == _ACCEPTED:
        LOAD.note(OK, first, SHAPE.batch, times, wire=size)
    elif status == _SOME_ACCEPTED:
        for index, result in enumerate(orjson.loads(answer.content)["results"]):
            outcome = _outcome(result["status"], result.get("error", {}))
            reason = None if outcome == OK else str(result["status"])
            LOAD.note(outcome, first + index, 1, times, wire=size // SHAPE.batch, reason=reason)
    else:
        outcome = _outcome(status, _problem(answer))
        LOAD.note(outcome, first, SHAPE.batch, times, wire=size, reason=f"HTTP {status}")


def _outcome(status: int, problem: dict[str, Any]) -> str:
    if status == _ACCEPTED:
        return OK
    return REFUSED if problem.get("accepted") is False else UNKNOWN


def _problem(answer: ResponseContextManager) -> dict[str, Any]:
    try:
        problem = orjson.loads(answer.content or b"")
    except orjson.JSONDecodeError:
        return {}
    return problem if isinstance(problem, dict) else {}


class Single(_Http):
    """One event a request."""


class Batch(_Http):
    """A JSON array of events a request."""


class Ndjson(_Http):
    """Events as lines, compressed by gzip."""


class Syslog(_Open):
    """Lines over TCP.  Syslog acknowledges nothing, so every outcome is unknown."""

    def on_start(self) -> None:
        """Connect."""
        assert LOAD.order.syslog  # noqa: S101 - the runner refuses a target without it
        self._connection = socket.create_connection(LOAD.order.syslog, timeout=30)

    def send(self, intended: float) -> None:
        """Send some lines; the time is until the kernel has taken them."""
        first = LOAD.numbers()
        body = LOAD.bodies.body(first)
        began = time.monotonic()
        problem: OSError | None = None
        try:
            self._connection.sendall(body)
        except OSError as error:
            problem = error
        ended = time.monotonic()
        reason = type(problem).__name__ if problem else "syslog has no acknowledgement"
        LOAD.note(UNKNOWN, first, SHAPE.batch, (intended, began, ended), wire=len(body), reason=reason)
        _fire(self, "TCP", ended - intended, problem)


class Packet(_Open):
    """Packets with the writer's header straight to a topic, as the seed system's test did."""

    _producers: ClassVar[list[Producer]] = []

    def on_start(self) -> None:
        """A producer of its own, and a thread that polls its acknowledgements."""
        settings = {
            **way_to(LOAD.order.bootstrap),
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "consistent",
            "linger.ms": 2,
            "message.timeout.ms": 30_000,
        }
        self._producer = Producer(settings)
        self._headers = [(wire.HEADER_CONTEXT, wire.CONTEXT_BYTES)]
        self._on_the_wire = sum(len(k) + len(v) for k, v in self._headers)
        Packet._producers.append(self._producer)
        gevent.spawn(_poll, self._producer)

    def send(self, intended: float) -> None:
        """Produce one packet; its acknowledgement arrives later."""
        number = LOAD.numbers()
        value, key = LOAD.bodies.body(number), str(number)
        size = len(value) + len(key) + self._on_the_wire
        began = time.monotonic()

        def acknowledged(error: KafkaError | None, message: Message) -> None:
            ended = time.monotonic()
            LOAD.busy -= 1
            outcome, reason = (UNKNOWN, error.name()) if error else (OK, None)
            record = (None, None) if error else (message.partition(), message.offset())
            LOAD.note(outcome, number, 1, (intended, began, ended), wire=size, reason=reason, record=record)
            _fire(self, "KAFKA", ended - intended, RuntimeError(reason) if reason else None)

        LOAD.busy += 1
        while True:
            try:
                self._producer.produce(
                    LOAD.order.topic, value, key, headers=self._headers, on_delivery=acknowledged
                )
            except BufferError:
                gevent.sleep(_POLL_SECONDS)
            else:
                return


def _poll(producer: Producer) -> None:
    while True:
        producer.poll(0)
        gevent.sleep(_POLL_SECONDS)


def _fire(user: User, kind: str, seconds: float, problem: Exception | None) -> None:
    user.environment.events.request.fire(
        request_type=kind,
        name=SHAPE.via,
        response_time=1000 * seconds,
        response_length=0,
        exception=problem,
        context={},
    )


class UntilDone(LoadTestShape):
    """As many users as connections; the shape ends when everything is sent and answered."""

    def tick(self) -> tuple[int, float] | None:
        """Called every second by locust."""
        return None if LOAD.done() else (SHAPE.connections, SHAPE.connections)


@events.spawning_complete.add_listener
def _begin(**_: object) -> None:
    LOAD.start()


@events.quitting.add_listener
def _end(**_: object) -> None:
    """Wait for requests in flight, then close the history in order."""
    until = time.monotonic() + _DRAIN_SECONDS
    while LOAD.busy and time.monotonic() < until:
        gevent.sleep(_POLL_SECONDS)
    LOAD.close()
