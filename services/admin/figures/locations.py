"""Where every accepted event is: Kafka's offsets against the totals of the databases and of parked events.

Everything here is arithmetic over collected data.  Each number is measured, also the events in flight: the
sum of the parts can differ from the accepted events, and the difference is shown.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.ops.audit.settled_log import SettledLog, Totals
from services.ops.current_totals_sql import DatabaseTotals
from services.ops.findings import Generation, Source
from services.ops.operate.holds_sql import Hold
from shared import wire

#: Outcomes of replays, which are counted in addition to `parked`.
_OF_REPLAYS = frozenset({"replayed", "replayed_duplicate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The control database's parked events."""

    #: Events by state: open, replaying, replayed, replayed_duplicate, discarded.
    states: Mapping[str, int] = field(default_factory=dict)
    #: Those of these events that came from topics of sources, which the gateway did not accept.
    of_changes: Mapping[str, int] = field(default_factory=dict)
    #: Events that need an operator (open or replaying) by event name; an empty name for events without one.
    open_by_name: Mapping[str, int] = field(default_factory=dict)
    #: The next offset of each partition of onramp.user_errors.
    consumed: Mapping[Source, int] = field(default_factory=dict)
    quarantined: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Kafka's offsets: the group's before, and the logs' after the databases were read."""

    group: Mapping[Source, int] = field(default_factory=dict)
    spans: Mapping[Source, tuple[int, int]] = field(default_factory=dict)
    leaderless: frozenset[Source] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The data of one reading."""

    databases: Mapping[str, DatabaseTotals]
    #: Databases without any reading, and retired ones: their events are in no part.
    unread: tuple[str, ...] = ()
    settled: SettledLog
    positions: Positions
    stored: Stored | None
    #: Events that wait on Kafka, by database; None if no writer answers.
    waiting_kafka: Mapping[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Numbers of events at one time.  None: unknown, because the part that has it does not answer."""

    at: datetime | None = None
    #: Events on Kafka since the beginning, and the further deliveries of events with several tables.
    accepted: int | None = None
    further: int = 0
    landed: int | None = None
    #: The row was there already.
    duplicates: int | None = None
    in_flight: int | None = None
    waiting_database: int | None = None
    waiting_kafka: int | None = None
    #: Parked events that need an operator: open, replaying, or not stored yet.
    open: int | None = None
    replaying: int | None = None
    not_stored: int | None = None
    discarded: int | None = None
    filtered: int | None = None
    #: Accepted and further, less all parts; 0 if each event is in a place.
    difference: int | None = None
    #: Start of a difference that lasts.
    difference_since: datetime | None = None
    oldest_waiting: datetime | None = None
    holds: tuple[Hold, ...] = ()
    open_by_name: Mapping[str, int] = field(default_factory=dict)
    #: Sentences about parts that could not be read.
    problems: tuple[str, ...] = ()

    @property
    def waiting(self) -> int | None:
        """Return the waiting events in databases and on Kafka."""
        if self.waiting_database is None or self.waiting_kafka is None:
            return None
        return self.waiting_database + self.waiting_kafka

    @property
    def parked(self) -> int | None:
        """Return the parked events that need an operator."""
        if self.open is None or self.replaying is None or self.not_stored is None:
            return None
        return self.open + self.replaying + self.not_stored


NO_LOCATIONS = Locations()


@dataclass(slots=True)
class _Sums:
    """The sums of all generations of all partitions."""

    settled: int = 0
    in_flight: int = 0
    #: Events that Kafka deleted before they were settled.
    lost: int = 0
    filtered: int = 0
    refused: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Settled events without an outcome.
    missing: int = 0
    #: Outcomes above the settled events, where each event has one destination, and where some have several.
    extra: int = 0
    further: int = 0
    has_several: bool = False


@dataclass(slots=True)
class _Count:
    """The events of one generation of a partition."""

    #: The first database and destination.
    place: tuple[str, str] = ("", "")
    has_several: bool = False
    events: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


_NO_COUNT = _Count()
_NO_TOTALS = Totals()


def locations_of(collected: Collected, at: datetime) -> Locations:
    """Return the numbers at `at`."""
    sums = _sums(collected)
    waiting_kafka = None if collected.waiting_kafka is None else sum(collected.waiting_kafka.values())
    missing = sums.missing + sums.lost - (waiting_kafka or 0)
    further = sums.further
    if missing < 0 and sums.has_several:  # it landed in one table, and waits for the other
        further, missing = further - missing, 0
    difference = missing - sums.extra
    parked = sums.outcomes["parked"] + sums.refused
    stored, not_stored = collected.stored, None
    states: Mapping[str, int] = {}
    if stored is not None:
        states = {state: n - stored.of_changes.get(state, 0) for state, n in stored.states.items()}
        not_stored = _not_stored(collected, stored)
        difference += parked - sum(states.values()) - not_stored
    holds = [held for database in collected.databases.values() for held in database.holds]
    return Locations(
        at=at,
        accepted=sums.settled + sums.in_flight + sums.lost,
        further=further,
        landed=sums.outcomes["landed"] + states.get("replayed", 0),
        duplicates=sums.outcomes["duplicate"] + states.get("replayed_duplicate", 0),
        in_flight=sums.in_flight,
        waiting_database=sums.outcomes["waiting"],
        waiting_kafka=waiting_kafka,
        open=None if stored is None else states.get("open", 0),
        replaying=None if stored is None else states.get("replaying", 0),
        not_stored=not_stored,
        discarded=None if stored is None else states.get("discarded", 0),
        filtered=sums.filtered,
        difference=difference,
        oldest_waiting=min((held.oldest for held in holds if held.oldest), default=None),
        holds=tuple(holds),
        open_by_name={} if stored is None else dict(stored.open_by_name),
        problems=tuple(_problems(collected)),
    )


def topics_of(databases: Iterable[DatabaseTotals], on_kafka: Iterable[str]) -> set[str]:
    """Return the topics of accepted events: those of the ledgers, and new ones."""
    known = {generation.source.topic for database in databases for generation in database.ledger}
    new = {topic for topic in on_kafka if topic.startswith(wire.EVENT_TOPIC_PREFIX)}
    probe = wire.topic_of(wire.PROBE_EVENT)
    return {topic for topic in known | new if topic != probe and not is_change_topic(topic)}


def is_change_topic(topic: str) -> bool:
    """Return whether a topic has changes of a source, which no gateway accepted."""
    return topic.startswith(wire.CHANGE_TOPIC_PREFIX)


def _sums(collected: Collected) -> _Sums:
    databases, settled, positions = collected.databases, collected.settled, collected.positions
    topics = topics_of(databases.values(), {source.topic for source in positions.spans})
    generations = _generations(collected, topics)
    counts, sums = _counts(databases, generations), _Sums()
    ledgers = [database.ledger for database in databases.values()]
    for source in generations.keys() | {s for s in positions.spans if s.topic in topics}:
        first, end = positions.spans.get(source, (0, 0))
        known, settled_to = generations.get(source, []), 0
        for topic_id in known:
            generation, of_topic = Generation(topic_id, source), (topic_id, source.partition)
            start = min(settled.baselines.get(of_topic, {}).values(), default=0)
            to = max([ledger.get(generation, start) for ledger in ledgers])
            if topic_id == known[-1]:
                to = max(to, min(positions.group.get(source, 0), end))
                settled_to = max(settled_to, to)
            totals = settled.totals.get(of_topic, _NO_TOTALS)
            _add(sums, to - start, counts.get(generation, _NO_COUNT), totals)
        sums.in_flight += max(end - max(settled_to, first), 0)
        if known:
            sums.lost += max(first - settled_to, 0)
    return sums


def _generations(collected: Collected, topics: Collection[str]) -> dict[Source, list[str]]:
    """Return the topic's generations of each partition that the databases know, the newest last."""
    generations: dict[Source, list[str]] = {}
    for database in collected.databases.values():
        for topic_id, source in database.ledger:
            if source.topic in topics and topic_id not in (known := generations.setdefault(source, [])):
                known.append(topic_id)
    if several := [(s, known) for s, known in generations.items() if len(known) > 1]:
        order = {generation: n for n, generation in enumerate(collected.settled.baselines)}
        for source, known in several:
            known.sort(key=_order_in(order, source.partition))
    return generations


def _order_in(order: Mapping[tuple[str, int], int], partition: int) -> Callable[[str], int]:
    return lambda topic_id: order.get((topic_id, partition), -1)


def _counts(
    databases: Mapping[str, DatabaseTotals], generations: Mapping[Source, Collection[str]]
) -> dict[Generation, _Count]:
    """Return the events of each generation by outcome, without replays."""
    counts: dict[Generation, _Count] = {}
    for name, database in databases.items():
        for (generation, destination, outcome), n in database.totals.items():
            if outcome in _OF_REPLAYS or generation.topic_id not in generations.get(generation.source, ()):
                continue
            count = counts.get(generation)
            if count is None:
                count = counts[generation] = _Count((name, destination))
            elif count.place != (name, destination):
                count.has_several = True
            count.events += n
            count.outcomes[outcome] = count.outcomes.get(outcome, 0) + n
    return counts


def _add(sums: _Sums, read: int, count: _Count, totals: Totals) -> None:
    """Add one generation of a partition, of which `read` events were settled."""
    accounted = count.events + totals.filtered + totals.refused
    has_several = count.has_several or totals.refused > totals.unroutable
    for outcome, n in count.outcomes.items():
        sums.outcomes[outcome] += n
    sums.settled += read
    sums.filtered += totals.filtered
    sums.refused += totals.refused
    sums.has_several = sums.has_several or has_several
    sums.missing += max(read - accounted, 0)
    if has_several:
        sums.further += max(accounted - read, 0)
    else:
        sums.extra += max(accounted - read, 0)


def _not_stored(collected: Collected, stored: Stored) -> int:
    """Return the parked events that are in outboxes, on the topic or quarantined."""
    spans = collected.positions.spans
    behind = sum(
        max(end - max(stored.consumed.get(source, first), first), 0)
        for source, (first, end) in spans.items()
        if source.topic == wire.USER_ERRORS
    )
    return behind + sum(each.outbox for each in collected.databases.values()) + stored.quarantined


def _problems(collected: Collected) -> Iterable[str]:
    for name in collected.unread:
        yield f"database {name} has not answered since this service started: its events are in no part"
    for name in sorted(collected.settled.retired):
        yield f"database {name} is retired: its events are in no part"
    if collected.stored is None:
        yield "the control database does not answer: parked events are unknown"
    if collected.waiting_kafka is None:
        yield "no writer answers: events that wait on Kafka are in no part"
    if lost := sorted(map(str, collected.positions.leaderless)):
        yield f"no broker leads {', '.join(lost[:3])}: their events are in no part"
