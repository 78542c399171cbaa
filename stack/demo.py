"""Sends real flights through the gateway, waits for their rows in Postgres, and compares the counts."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import orjson

from clients.python.onramp_client import ACCEPTED, REJECTED, Callbacks, Onramp, QueueFullError, Verdict
from stack import flights
from stack.demo_tables import make_airlines
from stack.errors import StackError
from stack.gateway_errors import unavailable
from stack.landed_counter import LandedCounter
from stack.report import Report

BATCH = 500
CONNECTIONS = 4
_AHEAD = 2 * CONNECTIONS
_POLL_SECONDS = 0.1
_STUCK_SECONDS = 60.0
_PATIENCE_SECONDS = 60.0

QUESTION = """\
SELECT payload->>'carrier' AS carrier,
       round(avg((payload->>'dep_delay')::numeric), 1) AS average_delay,
       count(*) AS flights
  FROM events.flight_departed
 WHERE payload->>'dep_delay' IS NOT NULL
 GROUP BY 1 ORDER BY 2 DESC LIMIT 5"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcomes of the demo's events."""

    sent: int
    accepted: int
    landed_now: int
    landed_before: int
    first_rejection: str
    seconds_sending: float
    seconds: float
    worst: list[tuple[str, str, float, int]]
    """Carrier, its name, its average departure delay in minutes, its flights that departed."""

    @property
    def landed(self) -> int:
        """Rows of accepted events, whichever run landed them."""
        return self.landed_now + self.landed_before

    @property
    def adds_up(self) -> bool:
        """Whether everything that was sent was accepted and is a row."""
        return self.sent == self.accepted == self.landed


class _Answers(Callbacks):
    """Passes the results of the sending threads to the one thread that counts them."""

    def __init__(self) -> None:
        super().__init__(None)
        self.waiting: deque[list[Verdict]] = deque()

    def report(self, verdicts: list[Verdict]) -> int:
        """Note all that one answer has settled."""
        self.waiting.append(verdicts)
        return 0


class Demo:
    """One run of the demo."""

    def __init__(
        self,
        gateway: str,
        dsn: str,
        limit: int | None,
        report: Report,
        *,
        api_key: str,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the addresses; nothing is sent before `run`.

        Args:
            gateway: the gateway's URL.
            dsn: the database where the events land.
            limit: how many flights to send, None for all.
            report: where progress goes.
            api_key: a key of the gateway.
            check: raises if a part has crashed.
        """
        self._check = check
        self._gateway = gateway
        self._api_key = api_key
        self._dsn = dsn
        self._limit = limit
        self._report = report
        self._sent = 0
        self._rejection = ""

    def run(self) -> Outcome:
        """Send the flights, wait until they landed, run the demo's query.

        Raises:
            StackError: the gateway stopped accepting, or nothing landed for a minute.
        """
        make_airlines(self._dsn, flights.airlines())
        with LandedCounter(self._dsn, flights.EVENT_NAME) as counter:
            began, clock = datetime.now(UTC), time.monotonic()
            with self._report.step("Sending flights to the gateway"):
                self._send_all(counter)
            sending = time.monotonic() - clock
            with self._report.step("Waiting until they have landed"):
                now, before = self._wait(counter, began)
            seconds = time.monotonic() - clock
            return Outcome(
                sent=self._sent,
                accepted=counter.accepted,
                landed_now=now,
                landed_before=before,
                first_rejection=self._rejection,
                seconds_sending=sending,
                seconds=seconds,
                worst=_worst(counter) if now + before else [],
            )

    def _send_all(self, counter: LandedCounter) -> None:
        """Have a few batches in flight; read the next flights only as answers arrive."""
        answers = _Answers()
        onramp = Onramp(
            self._gateway,
            self._api_key,
            batch=BATCH,
            connections=CONNECTIONS,
            queue_size=_AHEAD * BATCH,
            give_up_seconds=_PATIENCE_SECONDS,
            gzip_over=None,  # The gateway is on the same machine: CPU time is scarcer than bandwidth.
            callbacks=answers,
        )
        try:
            left = flights.envelopes(self._limit)
            while batch := [(each["metadata"]["id"], orjson.dumps(each)) for each in islice(left, BATCH)]:
                self._send(onramp, batch)
                while answers.waiting:
                    self._note(counter, answers.waiting.popleft())
            while not onramp.flush(_POLL_SECONDS):
                self._check()
            while answers.waiting:
                self._note(counter, answers.waiting.popleft())
        finally:
            onramp.close(0)  # Ctrl-C, or the gateway has ended: no sender retries.

    def _send(self, onramp: Onramp, batch: list[tuple[str, bytes]]) -> None:
        while True:
            try:
                onramp.send_many_bytes(batch, block_seconds=_POLL_SECONDS)
            except QueueFullError as full:
                batch = batch[len(full.taken) :]
                self._check()
            else:
                return

    def _note(self, counter: LandedCounter, verdicts: list[Verdict]) -> None:
        for event, outcome, answer in verdicts:
            self._sent += 1
            if outcome == ACCEPTED:
                counter.note(event.id, answer["receipt"])
            elif outcome != REJECTED:
                raise unavailable(self._gateway, answer)
            elif not self._rejection:
                self._rejection = f"{event.id}: {answer.get('status')} {answer.get('detail', '')}"
        self._report.progress(f"{counter.accepted:,} accepted")
        self._check()

    def _wait(self, counter: LandedCounter, began: datetime) -> tuple[int, int]:
        """Wait for the ledger, then count; fail if nothing changes for a minute."""
        progressed = time.monotonic()
        missing = counter.settled()
        while True:
            if missing == 0:
                now, before = counter.landed(began)
                if now + before == counter.accepted or time.monotonic() - progressed > _STUCK_SECONDS / 4:
                    return now, before
            elif time.monotonic() - progressed > _STUCK_SECONDS:
                raise StackError(
                    f"Nothing landed for {_STUCK_SECONDS:.0f} seconds; {missing:,} accepted events wait.",
                    fix="They are safe in Kafka. The writer's log says what holds it up.",
                )
            time.sleep(_POLL_SECONDS)
            self._check()
            still = counter.settled()
            if still < missing:
                progressed = time.monotonic()
            missing = still
            self._report.progress(f"{counter.accepted - missing:,} of {counter.accepted:,} settled")


def _worst(counter: LandedCounter) -> list[tuple[str, str, float, int]]:
    names = flights.airlines()
    return [
        (carrier, names.get(carrier, carrier), float(delay), int(count))
        for carrier, delay, count in counter.ask(QUESTION)
    ]
