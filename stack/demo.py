"""The main job: real flights through the gateway, rows in Postgres, counts that add up."""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, local
from typing import Any

import orjson

from stack import flights
from stack.books import Books
from stack.errors import StackError
from stack.posting import Poster
from stack.report import Report

BATCH = 500
CONNECTIONS = 4
_AHEAD = 2 * CONNECTIONS
_POLL_SECONDS = 0.1
_STUCK_SECONDS = 60.0
_ACCEPTED = 202

QUESTION = """\
SELECT payload->>'carrier' AS carrier,
       round(avg((payload->>'dep_delay')::numeric), 1) AS average_delay,
       count(*) AS flights
  FROM events.flight_departed
 WHERE payload->>'dep_delay' IS NOT NULL
 GROUP BY 1 ORDER BY 2 DESC LIMIT 5"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the demo's events."""

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


@dataclass(frozen=True, slots=True)
class _Batch:
    ids: list[str]
    body: bytes


class Demo:
    """One run of the main job."""

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
            api_key: what opens the gateway.
            check: raises when waiting has become pointless, because a part has crashed.
        """
        self._check = check
        self._gateway = gateway
        self._api_key = api_key
        self._dsn = dsn
        self._limit = limit
        self._report = report
        self._threads = local()
        self._give_up = Event()
        self._sent = 0
        self._rejection = ""

    def run(self) -> Outcome:
        """Send the flights, wait until they landed, ask the question.

        Raises:
            StackError: the gateway stopped accepting, or nothing landed for a minute.
        """
        with Books(self._dsn, flights.EVENT_NAME) as books:
            began, clock = datetime.now(UTC), time.monotonic()
            with self._report.step("Sending flights to the gateway"):
                self._send_all(books)
            sending = time.monotonic() - clock
            with self._report.step("Waiting until they have landed"):
                now, before = self._wait(books, began)
            seconds = time.monotonic() - clock
            return Outcome(
                sent=self._sent,
                accepted=books.accepted,
                landed_now=now,
                landed_before=before,
                first_rejection=self._rejection,
                seconds_sending=sending,
                seconds=seconds,
                worst=_worst(books) if now + before else [],
            )

    def _send_all(self, books: Books) -> None:
        """Keep a few batches on their way; read the next ones only as answers arrive."""
        waiting: deque[tuple[_Batch, Future[list[dict[str, Any]]]]] = deque()
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="demo") as pool:
            try:
                for batch in _batches(self._limit):
                    waiting.append((batch, pool.submit(self._send, batch)))
                    if len(waiting) >= _AHEAD:
                        self._note(books, *waiting.popleft())
                while waiting:
                    self._note(books, *waiting.popleft())
            except BaseException:
                self._give_up.set()  # Ctrl-C, or a gateway that is gone: nobody goes on trying.
                pool.shutdown(cancel_futures=True)
                raise

    def _send(self, batch: _Batch) -> list[dict[str, Any]]:
        if not hasattr(self._threads, "poster"):
            self._threads.poster = Poster(self._gateway, api_key=self._api_key)
        poster: Poster = self._threads.poster
        return poster.post_patiently(batch.body, give_up=self._give_up.is_set).results(batch.ids)

    def _note(self, books: Books, batch: _Batch, answer: Future[list[dict[str, Any]]]) -> None:
        for event_id, result in zip(batch.ids, answer.result(), strict=True):
            self._sent += 1
            if result["status"] == _ACCEPTED:
                books.note(event_id, result["receipt"])
            elif not self._rejection:
                told = result.get("error", result)
                self._rejection = f"{event_id}: {result['status']} {told.get('detail', '')}"
        self._report.progress(f"{books.accepted:,} accepted")
        self._check()

    def _wait(self, books: Books, began: datetime) -> tuple[int, int]:
        """Wait for the ledger, then count; nothing must move for long before it is a failure."""
        progressed = time.monotonic()
        missing = books.settled()
        while True:
            if missing == 0:
                now, before = books.landed(began)
                if now + before == books.accepted or time.monotonic() - progressed > _STUCK_SECONDS / 4:
                    return now, before
            elif time.monotonic() - progressed > _STUCK_SECONDS:
                raise StackError(
                    f"Nothing landed for {_STUCK_SECONDS:.0f} seconds; {missing:,} accepted events wait.",
                    fix="They are safe in Kafka. The writer's log says what holds it up.",
                )
            time.sleep(_POLL_SECONDS)
            self._check()
            still = books.settled()
            if still < missing:
                progressed = time.monotonic()
            missing = still
            self._report.progress(f"{books.accepted - missing:,} of {books.accepted:,} settled")


def _batches(limit: int | None) -> Iterator[_Batch]:
    events = flights.envelopes(limit)
    while batch := list(itertools.islice(events, BATCH)):
        yield _Batch([each["metadata"]["id"] for each in batch], orjson.dumps(batch))


def _worst(books: Books) -> list[tuple[str, str, float, int]]:
    names = flights.airlines()
    return [
        (carrier, names.get(carrier, carrier), float(delay), int(count))
        for carrier, delay, count in books.ask(QUESTION)
    ]
