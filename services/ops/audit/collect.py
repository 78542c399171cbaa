"""Collects the audit's data from every database and then from Kafka."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from sys import intern

from services.ops.audit.audit_data import AuditData, DatabaseData, ParkedEvent
from services.ops.audit.parked_store import Comparison
from services.ops.audit.settled_log import SettledLog
from services.ops.findings import Generation, Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.offset_ranges import History
from services.ops.parked.parked_events import Place
from services.ops.parked.records import Empty, ErrorEvent, Marker, diverted, parked
from services.ops.totals_sql import Snapshot
from shared import wire


async def collect(
    logs: KafkaLogs,
    snapshots: Mapping[str, Snapshot],
    topics: re.Pattern[str],
    comparison: Comparison | None = None,
) -> AuditData:
    """Read the audit's data, and compare parked events with stored ones.

    Raises `InfrastructureError`.
    """
    databases = {n: _database(s, topics) for n, s in snapshots.items()}
    logs.leaderless.clear()
    group = await logs.group_offsets()
    settled = SettledLog()
    async for record in logs.whole(wire.SETTLED):
        settled.apply(record.key, record.value)
    parked_events, foreign = await _parked(logs, topics, comparison)
    if comparison:
        comparison.see_outbox(
            Place(row.generation.topic_id, *row.generation.source, row.offset, row.destination)
            for snapshot in snapshots.values()
            for row in snapshot.outbox
        )
        comparison.flush()
    offsets: dict[tuple[str, Source], set[int]] = defaultdict(set)
    markers: dict[tuple[str, Generation], dict[tuple[int, int], Marker]] = defaultdict(dict)
    empty: dict[tuple[str, Generation], list[Marker]] = defaultdict(list)
    async for record in logs.whole(wire.SYSTEM_ERRORS):
        match diverted(record):
            case ErrorEvent() as event:
                offsets[event.destination, event.source].add(event.offset)
            case Marker() as m:
                markers[m.database, Generation(m.topic_id, m.source)][m.start, m.end] = m
            case Empty() as closed:
                for m in closed.markers:
                    _add(empty[m.database, Generation(m.topic_id, m.source)], m)
            case None:
                foreign += 1
    probe = wire.topic_of(wire.PROBE_EVENT)
    spans = await logs.spans(t for t in await logs.topics() if topics.fullmatch(t) and t != probe)
    return AuditData(
        databases={name: each for name, each in databases.items() if name not in settled.retired},
        closed={name: _counts(databases.get(name)) for name in sorted(settled.retired)},
        settled=settled,
        group=group,
        parked=parked_events,
        diverted={key: sorted(each) for key, each in offsets.items()},
        markers={key: [*markers[key].values(), *empty[key]] for key in markers.keys() | empty.keys()},
        spans=spans,
        leaderless=frozenset(logs.leaderless),
        foreign=foreign + settled.foreign,
    )


def _counts(database: DatabaseData | None) -> Mapping[str, int] | None:
    """Return a database's counts of events by outcome, or None if it was not given."""
    if database is None:
        return None
    counts: Counter[str] = Counter()
    for (_, _, outcome), events in database.totals.items():
        counts[outcome] += events
    return dict(sorted(counts.items()))


async def _parked(
    logs: KafkaLogs, topics: re.Pattern[str], comparison: Comparison | None
) -> tuple[dict[str, ParkedEvent], int]:
    """Return parked events without bytes and reasons, and the number of foreign records."""
    found: dict[str, ParkedEvent] = {}
    foreign = 0
    topic_ids = await logs.topic_ids()
    spans = await logs.spans([wire.USER_ERRORS])
    if comparison:
        comparison.begin(spans, topic_ids)
    async for record in logs.read(spans):
        if event := parked(record):
            if topics.fullmatch(event.source.topic):
                found.setdefault(
                    event.key, ParkedEvent(event.source, event.offset, intern(event.destination))
                )
            if comparison:
                comparison.see(record, event)
        else:
            foreign += 1
    return found, foreign


def _add(empty: list[Marker], new: Marker) -> None:
    """Add a range without events, merged with the one before it: an outage has many."""
    last = empty[-1] if empty else None
    if last and (last.end, last.digest) == (new.start, new.digest):
        empty[-1] = replace(last, end=new.end)
    else:
        empty.append(new)


def _database(snapshot: Snapshot, topics: re.Pattern[str]) -> DatabaseData:
    """Return a database's data of the audited topics; the probe's are excluded from all counts."""

    def audited(source: Source) -> bool:
        return bool(topics.fullmatch(source.topic)) and source.topic != wire.topic_of(wire.PROBE_EVENT)

    return DatabaseData(
        ledger={
            generation: next_offset
            for generation, next_offset in snapshot.ledger.items()
            if audited(generation.source)
        },
        totals={key: n for key, n in snapshot.totals.items() if audited(key[0].source)},
        outbox=frozenset((r.generation.source, r.offset, r.destination) for r in snapshot.outbox),
        waiting=frozenset(
            (r.generation, r.offset, r.destination) for r in snapshot.waiting if audited(r.generation.source)
        ),
        replayed={i: events for i, events in snapshot.replayed.items() if audited(i.source)},
        counts={t: {s: n for s, n in snapshot.counts(t).items() if audited(s)} for t in snapshot.tables},
        repeated=[(t, s, o, n) for t in snapshot.tables for s, o, n in snapshot.repeated(t) if audited(s)],
        unreadable=snapshot.unreadable,
        history={
            generation: History.of(spans, snapshot.ledger[generation])
            for generation, spans in snapshot.spans.items()
            if generation in snapshot.ledger
        },
    )
