"""The writer's visible state: the data behind /healthz, /readyz and /metrics."""

import asyncio
import logging
import operator
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from time import monotonic, time
from typing import Any, Final

from services.writer.model import commit_delays, connection_budget, timings
from services.writer.observe.database_stats import DatabaseSizes, DatabaseStats
from services.writer.observe.lag import Lag, OpenTransaction, ages_at, types_of
from services.writer.observe.metrics import Metrics
from services.writer.persist import landing_tables
from services.writer.postgres.database import Database
from services.writer.settle import outcome_counts
from services.writer.settle.holds import Hold, described
from services.writer.settle.work_order import TaskReport
from shared import wire
from shared.errors import NOT_CONFIGURED
from shared.figures import STATE_NOT_CONFIGURED, Spread, WriterDatabase, WriterFigures, bounded, summed
from shared.kafka_read.offsets import Partition
from shared.new_counters import Labels
from shared.path_steps import Step

log = logging.getLogger(__name__)

#: Topic, table and outcome.
TotalKey = tuple[str, str, str]

_STATES: Final = ("landing", "draining", "out", "halted")
_RESULTS: Final = ("read", "filtered", "unroutable", "refused", "waiting", "diverted")
_TOO_LARGE: Final = (
    f"parked events are too large for {wire.USER_ERRORS} and stay in onramp.outbox: "
    "raise max.message.bytes of that topic (docs/operating.md, An event is too large)"
)
_SESSIONS: Final = ("active", "idle", "idle in transaction", "idle in transaction (aborted)")


@dataclass(frozen=True, slots=True)
class Moment:
    """The start of a reading, as the number of times that tasks had started or stopped landing."""

    turns: int

    def is_quiet(self) -> bool:
        """Return whether no task was landing at the time."""
        return self.turns % 2 == 0


class Committed:
    """Combines the databases' totals with reports of later commits, so that counters are current.

    Totals are read every few seconds: counters from totals alone would stand still and jump, and so would
    every rate.  A total that is read while tasks land may contain events that the tasks report later.  So
    reports are added only to totals that were read while no task landed: a counter may be late, but is
    never too high.
    """

    def __init__(self) -> None:
        self._turns = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._reported: dict[str, Counter[TotalKey]] = defaultdict(Counter)
        #: By database, the totals less the events reported until they were read.
        self._before: dict[str, dict[TotalKey, int]] = {}

    @contextmanager
    def landing(self) -> Iterator[None]:
        """Mark a block in which tasks land, and in which their reports are added."""
        self._turns += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._turns += 1
            self._quiet.set()

    async def quiet(self, seconds: float) -> Moment:
        """Wait until no task lands, for `seconds` at most, and return the moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for may swallow its task's cancellation
                await self._quiet.wait()
        return self.moment()

    def moment(self) -> Moment:
        """Return the current moment."""
        return Moment(self._turns)

    def correct(self, database: str, totals: Mapping[TotalKey, int], began: Moment) -> None:
        """Correct the counts by totals whose reading began at `began`."""
        if began.is_quiet() and began == self.moment():
            reported = self._reported[database]
            self._before[database] = {k: totals.get(k, 0) - reported[k] for k in {*totals, *reported}}

    def add(self, database: str, events: Mapping[TotalKey, int]) -> dict[TotalKey, int]:
        """Add reported events; return their new totals, or none before the first quiet reading."""
        reported = self._reported[database]
        reported.update(events)
        before = self._before.get(database)
        return {} if before is None else {key: before.get(key, 0) + reported[key] for key in events}


class StateTimes:
    """The time at which each database entered its current state, as observed by this writer."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, datetime]] = {}

    def update(self, states: Mapping[str, str]) -> None:
        """Update the current state of each database."""
        for name, state in states.items():
            if name not in self._known or self._known[name][0] != state:
                self._known[name] = state, datetime.now(UTC)

    def since(self) -> dict[str, str]:
        """Return, by database, the start of its current state (ISO 8601, UTC)."""
        return {name: at.isoformat() for name, (_, at) in self._known.items()}


class Status:
    """The state of the loop and its metrics.  The loop updates it, the HTTP threads read it."""

    def __init__(self, new_counter_seconds: float = 0.0) -> None:
        self._instance, self._started = token_hex(8), monotonic()
        self.metrics = Metrics(new_counter_seconds=new_counter_seconds)
        self.committed = Committed()
        for result in (*_RESULTS, "parked"):
            self.metrics.records.labels(result)  # at 0 from the start: the first batch is an increase
        self.databases: dict[str, str] = {}
        self.state_times = StateTimes()
        self.holds: Sequence[Mapping[str, str]] = []
        #: Reasons by halted partition.
        self.halted_partitions: dict[Partition, str] = {}
        #: The number of events that wait on Kafka, by database that is not configured.
        self.unknown_databases: Mapping[str, int] = {}
        #: Places in the registry that the settings do not allow, with the reasons.
        self.unusable: dict[str, str] = {}
        #: A fault that an operator should fix, although events land.
        self.warning = ""
        #: Reasons by database that does not land.
        self.reasons: Mapping[str, str] = {}
        #: By database, a fault that an operator should fix, although no event waits for it.
        self.warnings: dict[str, str] = {}
        self._sizes: dict[str, DatabaseSizes] = {}
        self._read_at: dict[str, float] = {}
        self._sessions: Mapping[str, int] = {}
        self._max_sessions: dict[str, int] = {}
        self._commit_seconds = Spread(tuple(commit_delays.BOUNDS), (0,) * (len(commit_delays.BOUNDS) + 1))
        self._lag: Mapping[Partition, Lag] = {}
        self._lag_read = 0.0
        self._open: Mapping[Partition, OpenTransaction] = {}
        self._on_kafka: dict[str, tuple[int, float | None]] = {}
        self._page_lock = threading.Lock()
        self._consuming = False
        self._reason: str | None = "starting"
        self._is_standby = False
        self._batch_since: float | None = None
        self._turned = 0.0

    def update(self, databases: Mapping[str, str], halted: Mapping[Partition, str]) -> None:
        """Set the databases' states and the halted partitions with their reasons.  Called on each turn."""
        self.databases, self.halted_partitions = dict(databases), dict(halted)
        self.state_times.update(databases)
        self._turned = time()
        self._consuming = bool({"landing", "draining"} & set(databases.values()))
        out = ", ".join(f"{n} is {s}" for n, s in databases.items() if s != "landing")
        wrong = "; ".join(f"{place}: {reason}" for place, reason in self.unusable.items())
        self._reason = "; ".join(filter(None, (out, wrong, self.warning))) or None

    def update_reasons(self, reasons: Mapping[str, str]) -> None:
        """Set the reasons by database that does not land."""
        self.reasons = dict(reasons)

    def update_unknown_databases(self, events: Mapping[str, int]) -> None:
        """Set the numbers of events that wait for databases that are not configured; log new databases."""
        before, self.unknown_databases = self.unknown_databases, dict(events)
        for name, waiting in (dict.fromkeys(before, 0) | self.unknown_databases).items():
            self._show_waiting(name, "kafka", waiting, None)
        for name, waiting in events.items() - before.items() if before.keys() != events.keys() else ():
            extra = {"database": name, "waiting": waiting}
            log.error("events wait for a database that is not configured; it can be retired", extra=extra)

    def update_registry(self, digest: str, *, is_valid: bool = True) -> None:
        """Set the digest of the current registry, and whether the newest one on the topic is valid."""
        self.metrics.registry_refused.set(not is_valid)
        self.metrics.series.show(self.metrics.registry_info, {(digest,): 1.0}, max)

    def update_unusable(self, places: Mapping[str, str]) -> None:
        """Set the places in the registry that the settings do not allow, and log each new one."""
        for place in places.keys() - self.unusable.keys():
            extra = {"code": NOT_CONFIGURED.code, "place": place, "reason": places[place]}
            log.error("the settings do not allow a part of the registry: its events wait", extra=extra)
        self.unusable = dict(places)
        self.metrics.series.show(self.metrics.unusable, {(place,): 1.0 for place in places}, max)

    def update_holds(self, holds: Mapping[str, Sequence[Hold]]) -> None:
        """Set the holds of each database."""
        self.holds = [{"database": name, **each} for name, of in holds.items() for each in described(of)]

    def update_waiting(self, waiting: Mapping[str, tuple[int, float | None]]) -> None:
        """Set, by database, the number of events that wait on Kafka and the oldest time (Unix seconds)."""
        self._on_kafka = dict(waiting)

    def count_replays(self, ended: Mapping[str, Mapping[str, int]]) -> None:
        """Count the ended replay attempts, by database and outcome."""
        for name, outcomes in ended.items():
            for outcome, n in outcomes.items():
                self.metrics.series.count(self.metrics.replays, (name, outcome), n)

    def page(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        with self._page_lock:
            for name, state in self.databases.items():
                for possible in _STATES:
                    self.metrics.database_state.labels(name, possible).set(state == possible)
            self._show_lag()
            self.metrics.loop_turned.set(self._turned)
            self.metrics.halted_partitions.set(len(self.halted_partitions))
            for name, waiting in self._on_kafka.items():
                self._show_waiting(name, "kafka", *waiting)
            self.metrics.holds.clear()
            for each in self.holds:
                self.metrics.holds.labels(each["database"], each["kind"], each["name"], each["state"]).set(1)
            return self.metrics.series.page()

    def _show_lag(self) -> None:
        lag, metrics, at = self._lag, self.metrics, ages_at(self._lag_read)
        ages = {_labels_of(p): age for p, each in lag.items() if (age := each.seconds(at)) is not None}
        metrics.series.show(
            metrics.lag, {_labels_of(p): each.events for p, each in lag.items()}, operator.add
        )
        metrics.series.show(metrics.lag_seconds, ages, max)
        open_for = {_labels_of(p): each.seconds() for p, each in self._open.items()}
        metrics.series.show(metrics.open_transaction_seconds, open_for, max)

    def _show_waiting(self, database: str, where: str, events: int, since: float | None) -> None:
        self.metrics.waiting.labels(database, where).set(events)
        self.metrics.oldest_waiting.labels(database, where).set(_age(since))

    def update_connection_limit(self, database: Database, slots: int) -> None:
        """Set the maximum connections to `database` of a writer with `slots` Spark slots."""
        limit = connection_budget.max_connections(slots)
        self._max_sessions[database.name] = min(database.max_connections or limit, limit)
        self.metrics.max_connections.labels(database.name).set(self._max_sessions[database.name])

    def update_standby(self, database: str) -> None:
        """Set the database in which another writer has the lock; an empty name ends the standby."""
        self._is_standby = bool(database)
        self.metrics.standby.set(self._is_standby)
        if database:
            self.update_lag({})  # the other writer shows it now
            self.metrics.lag_read.set(0)
            self.update_open_transactions({})
            self._reason = f"another writer has the lock in database {database}: this one is on standby"

    def update_trouble(self, code: str, detail: str) -> None:
        """Show the error that stopped the loop, until the next `update`."""
        self.metrics.series.count_from_0(self.metrics.failures, (code,), 1)
        self._turned = time()
        self._consuming, self._reason = False, f"{code}: {detail}"

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Time a batch."""
        self._batch_since = monotonic()
        try:
            with self.metrics.batch_seconds.time():
                yield
        finally:
            self._batch_since = None

    def batch_seconds(self) -> float | None:
        """Return the seconds that the current batch has taken so far; None between two batches."""
        since = self._batch_since
        return None if since is None else round(monotonic() - since, 3)

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """Time a phase of a batch."""
        return self.metrics.phase_seconds.labels(name).time()

    def count_parked(self, events: int) -> None:
        """Count events that were parked because a database rejected them."""
        self.metrics.records.labels("parked").inc(events)

    def update_steps(self, reports: Iterable[TaskReport]) -> None:
        """Count the steps in tasks' reports, also of failed tasks, and the time of their slots."""
        reports = list(reports)
        self.metrics.spark.slot_seconds.inc(sum(report.slot_seconds for report in reports))
        for done in (done for report in reports if report.work for done in timings.done(report.work)):
            event_type = _event_type_of(done.topic, done.table)
            labels = (done.step, done.topic, event_type, done.database, done.table)
            self.metrics.series.count(self.metrics.step_seconds, labels, done.seconds)
            self.metrics.series.count(self.metrics.step_rows, labels, done.rows)

    def count_landed(self, reports: Iterable[TaskReport]) -> None:
        """Count the events that tasks committed, and their delays, also where another database failed."""
        events: dict[str, Counter[tuple[str, str, str]]] = defaultdict(Counter)
        for report in reports:
            for delay in commit_delays.from_json(report.delays or "[]"):
                labels = (delay.database, _event_type_of(delay.topic, delay.table))
                self.metrics.series.observe(self.metrics.commit_delays, labels, delay.counts, delay.seconds)
                self._commit_seconds += Spread(self._commit_seconds.bounds, tuple(delay.counts))
            for each in outcome_counts.from_json(report.outcomes or "[]"):
                events[each.database][each.topic, each.table, each.outcome] += each.events
        for name, counts in events.items():
            self._count_to(name, self.committed.add(name, counts))

    def _count_to(self, database: str, totals: Mapping[tuple[str, str, str], int]) -> None:
        labelled: dict[Labels, float] = {
            (Step.PERSIST.value, topic, _event_type_of(topic, table), database, table, outcome): n
            for (topic, table, outcome), n in totals.items()
        }
        self.metrics.series.count_to(self.metrics.events, labelled, database)

    def count_batch(self, reports: Sequence[TaskReport]) -> None:
        """Count a settled batch and its records."""
        self.metrics.batches.inc()
        for result in _RESULTS:
            self.metrics.records.labels(result).inc(sum(getattr(report, result) for report in reports))

    def update_undecided(self, totals: Mapping[tuple[Step, str, str], int]) -> None:
        """Set the totals that no database counts: by step, topic and outcome."""
        for (step, topic, outcome), n in totals.items():
            labels = (step.value, topic, _event_type_of(topic, ""), "", "", outcome)
            self.metrics.series.count_to(self.metrics.events, {labels: n}, f"{topic} {outcome}")

    def update_database(self, database: str, stats: DatabaseStats, began: Moment | None = None) -> None:
        """Set the figures read from a database; `began`: the moment at which the reading started."""
        warnings: dict[Labels, float] = {(database, *key): n for key, n in stats.warning_counts.items()}
        self._count_to(database, stats.totals)
        if began:
            self.committed.correct(database, stats.totals, began)
        self.metrics.series.count_to(self.metrics.warning_counts, warnings, database)
        self._read_at[database] = time()
        self.metrics.database_read.labels(database).set(self._read_at[database])

    def update_sizes(self, database: str, sizes: DatabaseSizes) -> None:
        """Set the sizes of a database."""
        self._sizes[database] = sizes
        self._show_waiting(database, "database", *sizes.waiting)
        self._update_too_large(database, sizes.too_large)
        self.metrics.outbox.labels(database).set(sizes.outbox)
        self.metrics.database_size.labels(database).set(sizes.size_bytes)

    def _update_too_large(self, database: str, events: int) -> None:
        self.metrics.too_large.labels(database).set(events)
        warning = {database: f"{events} {_TOO_LARGE}"} if events else {}
        self.warnings = {n: text for n, text in self.warnings.items() if n != database} | warning

    def update_connections(self, sessions: Mapping[str, Mapping[str, int]]) -> None:
        """Set the sessions by state of the databases that answer."""
        self._sessions = {name: sum(of.values()) for name, of in sessions.items()}
        shown: dict[Labels, float] = {
            (name, state): of.get(state, 0) for name, of in sessions.items() for state in {*_SESSIONS, *of}
        }
        self.metrics.series.show(self.metrics.connections, shown, operator.add)

    def update_lag(self, lag: Mapping[Partition, Lag]) -> None:
        """Set the lag of the partitions with a known lag."""
        self._lag, self._lag_read = dict(lag), time()
        self.metrics.lag_read.set(self._lag_read)

    def update_open_transactions(self, current: Mapping[Partition, OpenTransaction]) -> None:
        """Set the transactions of other producers that prevent reading partitions to their ends."""
        self._open = dict(current)

    def update_retentions(self, seconds: Mapping[str, float]) -> None:
        """Set the retention times of topics."""
        self.metrics.series.show(self.metrics.retention, {(topic,): s for topic, s in seconds.items()}, min)

    def update_kafka(self, *, reachable: bool) -> None:
        """Set whether Kafka answers."""
        self.metrics.kafka_reachable.set(reachable)
        if reachable:
            self.metrics.kafka_answered.set(time())

    def figures(self) -> WriterFigures:
        """Return the current figures; unlike the metrics, a new counter counts at once."""
        totals = self.metrics.series.totals(self.metrics.events)
        labels = bounded(labels[2] for labels in totals)
        events = summed(
            ((labels[event_type], database, outcome), int(n))
            for (_, _, event_type, database, _, outcome), n in totals.items()
        )
        return WriterFigures(
            instance=self._instance,
            uptime_seconds=monotonic() - self._started,
            state=self.state,
            reason=self._reason,
            events=events,
            types=types_of(self._lag, ages_at(self._lag_read)),
            databases={
                **{
                    name: WriterDatabase(state=STATE_NOT_CONFIGURED, waiting_kafka=n)
                    for name, n in self.unknown_databases.items()
                },
                **{name: self._database(name, state) for name, state in self.databases.items()},
            },
            holds=[dict(each) for each in self.holds],
            halted_partitions={str(p): why for p, why in self.halted_partitions.items()},
            lag_read=0.0 if self._is_standby else self._lag_read,
            commit_seconds=self._commit_seconds,
        )

    def _database(self, name: str, state: str) -> WriterDatabase:
        on_kafka, kafka_since = self._on_kafka.get(name, (0, None))
        sizes = self._sizes.get(name, DatabaseSizes())
        waiting, waiting_since = sizes.waiting
        return WriterDatabase(
            state=state,
            since=self.state_times.since().get(name),
            reason=self.reasons.get(name),
            waiting_kafka=on_kafka,
            waiting_database=waiting,
            oldest_kafka_seconds=_age(kafka_since),
            oldest_database_seconds=_age(waiting_since),
            connections=self._sessions.get(name),
            max_connections=self._max_sessions.get(name),
            size_bytes=sizes.size_bytes or None,
            outbox=sizes.outbox,
            read_at=self._read_at.get(name),
        )

    def open_transactions(self) -> dict[str, str]:
        """Return, by partition, a sentence for operators about each transaction that is open for long."""
        return {str(p): each.describe(p) for p, each in self._open.items() if each.is_long()}

    @property
    def state(self) -> str:
        """Return the writer's state: standby, consuming or waiting."""
        return "standby" if self._is_standby else "consuming" if self._consuming else "waiting"

    def ready(self) -> tuple[bool, str | None]:
        """Return whether the writer consumes, and the reason if it does not, or not in every database."""
        return self._consuming, self._reason


def _labels_of(partition: Partition) -> Labels:
    """Return the topic and the number of a partition."""
    return partition.topic, str(partition.number)


def _event_type_of(topic: str, table: str) -> str:
    """Return the event type that a landing table or a topic is named after; empty when neither is."""
    if table.startswith(f"{landing_tables.SCHEMA}."):
        return table.removeprefix(f"{landing_tables.SCHEMA}.")
    prefix = wire.topic_of("")
    return topic.removeprefix(prefix) if topic.startswith(prefix) else ""


def _age(since: float | None) -> float:
    """Return the seconds since `since` (Unix seconds); 0 if nothing waits."""
    return 0.0 if since is None else max(time() - since, 0.0)
