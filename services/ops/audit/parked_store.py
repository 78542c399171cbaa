"""Compares parked events with the control database: bytes, states, replays and discards.

The control database is read before the databases and again after them.  A database must know the events that
were replayed before, and the events that it knows must not be open or discarded afterwards.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from sys import intern
from typing import Final

from services.ops.audit.audit_data import AuditData
from services.ops.findings import Code, Finding, Generation, Report, Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.parked_events import Place, place_of
from services.ops.parked.records import ErrorEvent
from services.ops.parked_store_sql import ParkedStore, StoredRange
from shared import wire

_AT_ONCE: Final = 1_000
#: Maximum findings of one kind that are listed for a partition.
MAX_NAMED: Final = 1_000
_READ_AGAIN: Final = (
    "stop `onramp admin`, run `psql -c 'DELETE FROM onramp_admin.consumed'` in the control database and "
    "start it again: it reads the topic from its start, and stores the missing events"
)
_RESTORE: Final = "restore the control database and ONRAMP_ADMIN_STORE from their backups"
_RECHECK: Final = "`onramp errors recheck` reopens it; then `onramp errors replay`"
_REPLAY: Final = "`onramp errors replay` (of a discarded one after `restore`): it lands no second time"
_DISCARD: Final = "`onramp errors restore`, then `onramp errors discard` with a reason"


class Named:
    """Findings: the first of each kind and partition are listed, the others counted."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Code, Source]] = Counter()
        self._named: list[Finding] = []

    def add(self, code: Code, place: Place, detail: str, fix: str) -> None:
        """Add a finding about an event."""
        source = Source(place.topic, place.partition)
        self._counts[code, source] += 1
        if self._counts[code, source] <= MAX_NAMED:
            self._named.append(Finding(code, source, place.offset, detail, fix))

    def all(self) -> Iterator[Finding]:
        """Yield the findings."""
        yield from self._named
        for (code, source), n in self._counts.items():
            if n > MAX_NAMED:
                yield Finding(code, source, None, f"and {n - MAX_NAMED:,} more events, which are not named")


@dataclass(slots=True)
class Comparison:
    """Compares the records of `onramp.user_errors` with stored events, a page at a time.

    `consumed`: the offset below which records must be stored.
    """

    store: ParkedStore
    topics: re.Pattern[str]
    named: Named = field(default_factory=Named)
    consumed: Mapping[Source, int] = field(default_factory=dict)
    #: By source, the (offset, destination) of parked events that are not stored.
    not_stored: dict[Source, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    _page: list[tuple[Place, bytes | None, bool]] = field(default_factory=list)

    def begin(self, spans: Mapping[Source, tuple[int, int]], topic_ids: Mapping[str, str]) -> None:
        """Take Kafka's offset ranges; a log that was recreated since must be stored from its start."""
        of = self.store.topic_ids
        self.consumed = {
            source: offset
            for source, offset in self.store.consumed.items()
            if source in spans
            and offset <= spans[source][1]
            and of.get(source) in {None, topic_ids.get(source.topic)}
        }

    def see(self, record: LogRecord, event: ErrorEvent) -> None:
        """Add a record and its event."""
        if place := place_of(event):
            digest = None if event.value is None else sha256(event.value).digest()
            self._add(place, digest, is_due=record.offset < self.consumed.get(record.source, 0))

    def see_outbox(self, places: Iterable[Place]) -> None:
        """Add events of the outbox, on their way to the topic."""
        for place in places:
            self._add(place, None, is_due=False)

    def flush(self) -> None:
        """Compare the collected page."""
        page, self._page = self._page, []
        found = self.store.find([place for place, *_ in page])
        for place, digest, is_due in page:
            if place not in found:
                key = (place.offset, intern(place.destination))
                self.not_stored[Source(place.topic, place.partition)].add(key)
                if is_due:
                    text = f"parked for {_target(place)}, and the control database does not keep it"
                    self.named.add(Code.NOT_STORED, place, text, _READ_AGAIN)
            elif is_due and found[place].sha256 != digest:
                text = f"the control database keeps other bytes than were parked for {_target(place)}"
                self.named.add(Code.CORRUPT, place, text, _RESTORE)

    def _add(self, place: Place, digest: bytes | None, *, is_due: bool) -> None:
        if self.topics.fullmatch(place.topic):
            self._page.append((place, digest, is_due))
            if len(self._page) >= _AT_ONCE:
                self.flush()


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """The control database `before` and `after` the other databases were read, and Kafka's records."""

    before: ParkedStore
    after: ParkedStore
    comparison: Comparison

    def run(self, data: AuditData, report: Report, *, deep: bool) -> None:
        """Run all checks of the control database."""
        named = self.comparison.named
        report.findings += self._check_sums(data, report)
        self._name_lost_replays(data, named, report)
        self._name_contradicted(data, named)
        for place in self._audited(self.after.unattributed()):
            text = f"discarded for {_target(place)}, without a recorded operator and reason"
            named.add(Code.UNATTRIBUTED, place, text, _DISCARD)
        for place in self._audited(self.before.without_bytes() if deep else ()):
            text = f"the control database has no bytes of {_target(place)}, or other ones"
            named.add(Code.NOT_STORED, place, text, _RESTORE)
        report.findings += named.all()

    def _check_sums(self, data: AuditData, report: Report) -> Iterator[Finding]:
        """Compare parked totals with stored events in any state, and events not stored yet."""
        checked = list(_ranges(data))
        report.stored = {}
        states: Counter[str] = Counter()
        counts = self.before.count([r for r, _ in checked], data.names())
        for (of, total), found in zip(checked, counts, strict=True):
            states.update(found)
            missing = sum(_is_in(data, of, *key) for key in self.comparison.not_stored.get(of.source, ()))
            report.not_yet_stored += missing
            if total != found.total() + missing:
                counted = (
                    "refused destinations are counted" if of.database is None else "are counted as parked"
                )
                said = ", ".join(f"{n} {state}" for state, n in sorted(found.items())) or "none"
                text = f"{total} {counted}, the control database has {said}, and {missing} are not kept yet"
                yield Finding(Code.WRONG_TOTAL, of.source, None, text)
        report.stored = dict(sorted(states.items()))

    def _name_lost_replays(self, data: AuditData, named: Named, report: Report) -> None:
        """Report replayed events that their database does not know after a restore from a dump."""
        unknown = 0
        for generation, places in groupby(self._audited(self.before.replayed()), key=_generation):
            known = {
                (r.offset, r.destination)
                for database in data.databases.values()
                for r in database.replayed.get(generation, ())
            }
            for place in places:
                if (place.offset, place.destination) in known:
                    continue
                if not _is_checkable(data, generation, place):
                    unknown += not _is_closed(data, place)
                    continue
                text = (
                    f"replayed into {_target(place)}, and onramp.replayed there does not know it: the "
                    "database was restored from an earlier dump"
                )
                if wire.is_refused(place.destination):
                    text = (
                        "replayed after it was refused, and onramp.replayed of no database knows it: one was "
                        "restored from an earlier dump"
                    )
                named.add(Code.REPLAY_LOST, place, text, _RECHECK)
        if unknown:
            report.unchecked.append(f"{unknown:,} replayed events are for databases that were not given")

    def _name_contradicted(self, data: AuditData, named: Named) -> None:
        """Report events that landed by a replay and are open or discarded in the control database."""
        for database in data.databases.values():
            for (topic_id, source), events in database.replayed.items():
                for first in range(0, len(events), _AT_ONCE):
                    page = events[first : first + _AT_ONCE]
                    found = self.after.find([Place(topic_id, *source, r.offset, r.destination) for r in page])
                    for place, kept in found.items():
                        if kept.state in {"open", "discarded"}:
                            text = (
                                f"landed in {_target(place)} by a replay, and {kept.state} in the control "
                                "database: that was restored from an earlier dump"
                            )
                            named.add(Code.DOUBLE_TERMINAL, place, text, _REPLAY)

    def _audited(self, places: Iterable[Place]) -> Iterator[Place]:
        return (place for place in places if self.comparison.topics.fullmatch(place.topic))


def _ranges(data: AuditData) -> Iterator[tuple[StoredRange, int]]:
    """Yield each partition's settled range by database, and its count of parked events."""
    for source in sorted(data.topic_ids):
        if data.shares_offsets(source):
            continue  # parked events name the topic, not its generation
        for generation in data.generations_of(source):
            first = data.start(generation)
            for name, database in data.databases.items():
                parked = (n for (_, o), n in database.counted(generation).items() if o == "parked")
                upto = database.ledger.get(generation, 0)
                yield StoredRange(source, first, upto, name), sum(parked)
            none = data.without_destination(generation)
            yield StoredRange(source, first, none.next_offset, None), none.refused


def _is_in(data: AuditData, of: StoredRange, offset: int, destination: str) -> bool:
    return of.first <= offset < of.upto and data.database_of(destination) == of.database


def _is_checkable(data: AuditData, generation: Generation, place: Place) -> bool:
    """Return whether the database that would know the event was given; for a refused event, any database."""
    if wire.is_refused(place.destination):
        return data.baseline(generation).keys() <= data.databases.keys()
    return data.database_of(place.destination) in data.databases


def _is_closed(data: AuditData, place: Place) -> bool:
    """Return whether the database that would know the event is retired."""
    return data.database_of(place.destination) in data.closed


def _generation(place: Place) -> Generation:
    return Generation(place.topic_id, Source(place.topic, place.partition))


def _target(place: Place) -> str:
    return place.destination or "no table"
