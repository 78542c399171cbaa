"""Gives parked events to the transforms that parked them, by records on Kafka, and reads the outcomes.

A replay's outputs are written with its outcome; a rehearsal has the outcome alone.

Each attempt is on `onramp.transform_replays` once: one transactional id fences every other process that wrote
there, and what that process has committed is read before missing attempts are written.  So a process that is
killed during a step, or has lost its job to another replica, leaves no second record.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from typing import Final

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.admin.attempts import Attempt, AttemptState
from services.admin.store.bytes_sql import Loaded
from services.admin.store.jobs_sql import Job
from services.admin.store.staging_sql import Load, first_part, lost
from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, no_leader
from shared import failpoints, wire
from shared.errors import EVENT_TOO_LARGE, KAFKA_UNAVAILABLE, NOT_CONFIGURED, InfrastructureError, UserError
from shared.kafka_security import Brokers
from shared.registry import Snapshot
from shared.transform_replay import Replay, ReplayOutcome

log = logging.getLogger(__name__)

#: The same for all replicas and jobs: an open transaction would hide the records behind it.
TRANSACTIONAL_ID: Final = "onramp-admin-transform-replays"
_TRANSACTION_TIMEOUT_MS: Final = 15_000
_REQUEST_MS: Final = 8_000
#: Seconds of one step's transaction, below its timeout.
_SECONDS: Final = 12.0
_STOP_SECONDS: Final = 2.0
_MAX_REQUEST: Final = 16 << 20
#: Maximum bytes of an edited event; the topic takes somewhat larger records.
_MAX_EVENT: Final = 10 << 20
#: Attempts of one transaction.
_MAX_ATTEMPTS: Final = 5_000
#: Jobs whose position on the topics is remembered.
_MAX_JOBS: Final = 16
#: A job's kind that writes no outputs.
REHEARSE: Final = "rehearse"
_NOUNS: Final = {REHEARSE: "rehearsal", "replay": "replay"}
_TOPICS: Final = (wire.TRANSFORM_REPLAYS, wire.TRANSFORM_REPLAYED)

#: An event's id and its attempt.
_Key = tuple[int, int]


@dataclass(slots=True)
class _Followed:
    """The attempts of one job on Kafka, read up to `next`."""

    next: dict[Source, int] = field(default_factory=dict)
    staged: set[_Key] = field(default_factory=set)
    outcomes: dict[_Key, ReplayOutcome] = field(default_factory=dict)

    def missing(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Return the attempts that are not on Kafka."""
        return [a for a in attempts if _key(a) not in self.staged and _key(a) not in self.outcomes]

    def states_for(self, job: Job, attempts: Sequence[Attempt]) -> list[AttemptState]:
        """Return the states of `attempts`; those of a replay are stored at once, so they are forgotten."""
        return self.states(attempts) if job.kind == REHEARSE else self.take(attempts)

    def take(self, attempts: Sequence[Attempt]) -> list[AttemptState]:
        """Return the states of `attempts`, and forget those with an outcome."""
        states = self.states(attempts)
        self.forget(attempt for attempt, state in zip(attempts, states, strict=True) if state.outcome)
        return states

    def forget(self, attempts: Iterable[Attempt]) -> None:
        """Forget attempts whose outcomes are stored."""
        for key in map(_key, attempts):
            self.staged.discard(key)
            self.outcomes.pop(key, None)

    def states(self, attempts: Iterable[Attempt]) -> list[AttemptState]:
        """Return the states of `attempts`."""
        return [self._state(attempt) for attempt in attempts]

    def _state(self, attempt: Attempt) -> AttemptState:
        outcome = self.outcomes.get(_key(attempt))
        if outcome is None:
            return AttemptState(attempt.id, None, None, staged=_key(attempt) in self.staged)
        reason = None if outcome.reason is None else orjson.dumps(dict(outcome.reason)).decode()
        return AttemptState(attempt.id, outcome.outcome, reason, staged=True)


class TransformReplays:
    """Stages attempts at events of transforms; for one thread."""

    def __init__(self, brokers: Brokers, snapshot: Callable[[], Snapshot]) -> None:
        """`snapshot`: the registry in force, which names the deployed transforms."""
        self._brokers = brokers
        self._snapshot = snapshot
        self._jobs: dict[str, _Followed] = {}

    def follow(self, job: Job, transform: str, attempts: Sequence[Attempt], load: Load) -> list[AttemptState]:
        """Return the states of `attempts`, after staging a part of those that are not on Kafka.

        The outcomes of a rehearsal are returned until `forget_rehearsed`.  Raise `InfrastructureError`, also
        if the transform is not deployed and no attempt, or not each attempt of a rehearsal, has an outcome.
        """
        return asyncio.run(self._follow(job, transform, attempts, load))

    def withdraw(self, job: Job, transform: str, attempts: Sequence[Attempt]) -> list[AttemptState]:
        """Return the attempts with an outcome, and those that will never have one.

        An attempt on Kafka cannot be withdrawn: it is only returned if the transform is not deployed.
        Raise `InfrastructureError`.
        """
        return asyncio.run(self._withdraw(job, transform, attempts))

    def forget_rehearsed(self, job: Job, attempts: Iterable[Attempt]) -> None:
        """Forget the outcomes of a counted page."""
        if (followed := self._jobs.get(job.uuid)) is not None:
            followed.forget(attempts)

    def forget(self, job: Job) -> None:
        """Read the job's attempts from Kafka again, because a failed step has not stored its outcomes."""
        self._jobs.pop(job.uuid, None)

    async def _follow(
        self, job: Job, transform: str, attempts: Sequence[Attempt], load: Load
    ) -> list[AttemptState]:
        async with KafkaLogs(self._brokers) as logs:
            followed = await self._read(logs, job)
            if not self._is_deployed(transform):
                return _ended(followed.states_for(job, attempts), job, transform)
            part = first_part(followed.missing(attempts), _MAX_ATTEMPTS)
            if not part:
                return followed.states_for(job, attempts)
            loaded = _checked(load([a.id for a in part]))
            async with self._fenced() as producer:
                followed = await self._read(logs, job)
                part = [a for a in followed.missing(part) if a.id in loaded.values]
                await _send(producer, job, transform, part, loaded)
            failpoints.reach("admin.transform_staged")
        followed.staged |= {_key(a) for a in part}
        why = loaded.lost
        return [lost(f, why[f.id]) if f.id in why else f for f in followed.states_for(job, attempts)]

    async def _withdraw(self, job: Job, transform: str, attempts: Sequence[Attempt]) -> list[AttemptState]:
        async with KafkaLogs(self._brokers) as logs, self._fenced():
            followed = await self._read(logs, job)
        missing = {a.id for a in followed.missing(attempts)}
        is_deployed = self._is_deployed(transform)
        states = followed.take(attempts)
        return [f for f in states if f.outcome is not None or f.id in missing or not is_deployed]

    def _is_deployed(self, transform: str) -> bool:
        """Return whether a function runs.  Raise `InfrastructureError` until the registry was read."""
        entry = self._snapshot().transforms.get(transform)
        return entry is not None and entry.source is not None

    async def _read(self, logs: KafkaLogs, job: Job) -> _Followed:
        """Read the job's attempts and outcomes up to the end of what is committed.

        Records of a job have the time of its start, so that the first read begins there.
        """
        spans = await logs.spans(_TOPICS)
        if len(spans) < len(_TOPICS):
            text = f"{' or '.join(_TOPICS)} does not exist: start the transform service, which creates both"
            text = no_leader(logs.leaderless) if logs.leaderless else text
            raise InfrastructureError(KAFKA_UNAVAILABLE, text)
        followed = self._jobs.pop(job.uuid, None)
        if followed is None:
            starts = await logs.offsets_at(spans, _milliseconds(job) - 1)
            followed = _Followed({s: min(starts.get(s, end), end) for s, (_, end) in spans.items()})
        new = {source: (max(followed.next[source], first), end) for source, (first, end) in spans.items()}
        async for record in logs.read(new):
            if record.source.topic == wire.TRANSFORM_REPLAYED:
                outcome = ReplayOutcome.parse(record.value)
                if outcome and outcome.replay.job == job.uuid:
                    followed.outcomes[outcome.replay.event, outcome.replay.attempt] = outcome
                continue
            replay = Replay.in_context(record.headers.get(wire.HEADER_CONTEXT))
            if replay and replay.job == job.uuid:
                followed.staged.add((replay.event, replay.attempt))
        followed.next = {source: end for source, (_, end) in spans.items()}
        self._jobs[job.uuid] = followed
        while len(self._jobs) > _MAX_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return followed

    @asynccontextmanager
    async def _fenced(self) -> AsyncIterator[AIOKafkaProducer]:
        """Yield a producer after every other holder of the id was fenced, and its transaction ended."""
        producer = AIOKafkaProducer(
            **self._brokers.aiokafka(),
            acks="all",
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=_REQUEST_MS,
            max_request_size=_MAX_REQUEST,
        )
        try:
            with _translated("start a transaction"):
                async with asyncio.timeout(_SECONDS):
                    await producer.start()
            yield producer
        finally:
            await _stop(producer)


async def _stop(producer: AIOKafkaProducer) -> None:
    """Disconnect.  A transaction that is still open ends with the next holder of the id."""
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await producer.stop()
    except (KafkaError, TimeoutError) as e:
        log.info("a producer of replays did not stop in time", extra={"reason": type(e).__name__})


async def _send(
    producer: AIOKafkaProducer, job: Job, transform: str, attempts: Sequence[Attempt], loaded: Loaded
) -> None:
    """Write `attempts` in one transaction."""
    if not attempts:
        return
    with _translated(f"write to {wire.TRANSFORM_REPLAYS}"):
        async with asyncio.timeout(_SECONDS), producer.transaction():
            for attempt in attempts:
                received_at, sent_at = loaded.times[attempt.id]
                time_of = (received_at or sent_at).astimezone(UTC).isoformat()
                await producer.send(
                    wire.TRANSFORM_REPLAYS,
                    key=transform.encode(),
                    value=loaded.values[attempt.id],
                    timestamp_ms=_milliseconds(job),
                    headers=[
                        (wire.HEADER_CONTEXT, _replay(job, attempt).context(transform)),
                        (wire.HEADER_RECEIVED_AT, time_of.encode()),
                    ],
                )
            await producer.flush()
            failpoints.reach("admin.transform_sent")


def _replay(job: Job, attempt: Attempt) -> Replay:
    return Replay(
        job=job.uuid,
        event=attempt.id,
        attempt=attempt.attempt,
        topic_id=attempt.topic_id,
        topic=attempt.topic,
        partition=attempt.partition,
        offset=attempt.offset,
        is_rehearsal=job.kind == REHEARSE,
    )


def _checked(loaded: Loaded) -> Loaded:
    """Take out edited events that are too large for the topic."""
    for number, value in list(loaded.values.items()):
        if len(value) > _MAX_EVENT:
            text = f"the edited event has {len(value):,} bytes; the maximum is {_MAX_EVENT:,}"
            loaded.lost[number] = UserError(EVENT_TOO_LARGE, text)
            del loaded.values[number]
    return loaded


def _ended(states: list[AttemptState], job: Job, transform: str) -> list[AttemptState]:
    """Return the attempts with an outcome.  Raise `InfrastructureError` if there are too few to continue."""
    ended = [state for state in states if state.outcome is not None]
    if not ended or (job.kind == REHEARSE and len(ended) < len(states)):
        text = f"transform {transform} is not deployed: deploy it, or cancel the {_NOUNS[job.kind]}"
        raise InfrastructureError(NOT_CONFIGURED, text)
    return ended


def _key(attempt: Attempt) -> _Key:
    return attempt.id, attempt.attempt


def _milliseconds(job: Job) -> int:
    """Return the time of the job's start, which all its records have."""
    return int(job.created_at.timestamp() * 1000)


@contextmanager
def _translated(action: str) -> Iterator[None]:
    """Raise Kafka's errors as `InfrastructureError`."""
    try:
        yield
    except (KafkaError, TimeoutError, OSError) as e:
        raise InfrastructureError(KAFKA_UNAVAILABLE, f"cannot {action}: {type(e).__name__}") from e
