"""Checks of ledgers, totals, outbox, markers and counted rows against each other, and their findings.

Everything here is arithmetic over collected data, without Kafka and Postgres.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from services.ops.audit.audit_data import AuditData, between
from services.ops.audit.replays import redirected
from services.ops.findings import Code, Finding, Generation, Line, Report, Source, Table
from shared import wire

_LANDED: Final = ("landed", "replayed")


def line_of(data: AuditData, generation: Generation) -> Line:
    """Return the totals of one generation."""
    none = data.without_destination(generation)
    names = [n for n, d in data.databases.items() if generation in d.ledger]
    line = Line(generation.topic_id, *generation.source, data.start(generation), data.next_offset(generation))
    line.filtered, line.unroutable, line.refused = none.filtered, none.unroutable, none.refused
    outcomes: Counter[str] = Counter()
    for name in names:
        for (_, outcome), n in data.databases[name].counted(generation).items():
            outcomes[outcome] += n
        line.waiting += len(data.waiting(name, generation))
    line.waiting += outcomes.pop("waiting", 0)
    line.outcomes = dict(sorted(outcomes.items()))
    return line


def one_destination(data: AuditData, generation: Generation) -> bool:
    """Return whether all events of `generation` with a destination have the same one."""
    destinations = {
        (name, destination) for name, d in data.databases.items() for destination, _ in d.counted(generation)
    }
    waiting = {name for name in data.databases if data.waiting(name, generation)}
    if len(destinations) > 1 or len(waiting) > 1:
        return False
    return not waiting or {name for name, _ in destinations} in (waiting, set())


def check_markers(data: AuditData, generation: Generation) -> Iterable[Finding]:
    """Yield undrained markers whose count differs from the topic's: their drain would halt."""
    for database in data.databases:
        settled_to = data.databases[database].ledger.get(generation, 0)
        diverted = data.diverted.get((database, generation.source), ())
        for m in data.markers.get((database, generation), ()):
            held_count = len(between(diverted, m.start, m.end))
            if m.end > settled_to and (
                held_count < m.count or (held_count > m.count and not data.is_shared(m))
            ):
                yield Finding(
                    Code.BAD_MARKER,
                    generation.source,
                    m.start,
                    f"the marker of [{m.start}, {m.end}) for {database} counts {m.count} events, "
                    f"{wire.SYSTEM_ERRORS} holds {held_count}",
                )


def check_rows(data: AuditData, report: Report) -> None:
    """Compare rows with landed totals, and report receipts in several rows."""
    for name, database in data.databases.items():
        landed: Counter[tuple[str, Source]] = Counter()
        for (generation, destination, outcome), n in database.totals.items():
            if outcome in _LANDED:
                landed[destination, generation.source] += n
        landed.update(redirected(name, database.replayed))
        known = {generation.source for generation in database.ledger}
        for table, counts in database.counts.items():
            expected = {s: n for (d, s), n in landed.items() if d == table.destination}
            for source in sorted(counts.keys() | expected.keys()):
                report.findings += _row_count(table, source, counts, expected, known=source in known)
        for destination, source in landed:
            table = Table(name, *destination.split(".", 1))
            if table not in database.counts.keys() | database.unreadable:
                report.unchecked.append(f"{table} keeps no receipts: its rows from {source} are not counted")
        for table, source, offset, n in database.repeated:
            if n > max(len(data.containing(source, offset)), 1):
                text = f"{n} rows of {table} have this receipt"
                report.findings.append(Finding(Code.DUPLICATE, source, offset, text))


def report_unread_tables(data: AuditData, report: Report) -> None:
    """Report the tables with receipts that the audit's role may not read, and whose rows are unchecked."""
    for database in data.databases.values():
        for table in sorted(database.unreadable):
            report.unreadable.append(str(table))
            report.unchecked.append(
                f"{table} may not be read by the audit's role, so its rows are not checked: "
                "GRANT it USAGE on the schema and SELECT on the table, or audit as the writer's role"
            )


def _row_count(
    table: Table, source: Source, counts: Mapping[Source, int], expected: Mapping[Source, int], *, known: bool
) -> Iterable[Finding]:
    landed, counted = counts.get(source, 0), expected.get(source, 0)
    if not known:
        yield Finding(Code.PHANTOM, source, None, f"{landed} rows of {table} come from where no ledger was")
    elif landed != counted:
        text = f"{table} has {landed} rows from here, its totals say that {counted} landed"
        yield Finding(Code.WRONG_TOTAL, source, None, text)


def check_parked(data: AuditData, generation: Generation) -> Iterable[Finding]:
    """Compare parked totals with the distinct keys on the topic and in the outbox."""
    if data.shares_offsets(generation.source):
        return  # the keys name the topic, not its generation
    for name, database in data.databases.items():
        counted = sum(n for (_, outcome), n in database.counted(generation).items() if outcome == "parked")
        kept = len(data.parked_keys(generation, name, database.ledger.get(generation, 0)))
        if kept != counted:
            text = f"{name} counts {counted} parked, {wire.USER_ERRORS} and the outbox hold {kept}"
            yield Finding(Code.WRONG_TOTAL, generation.source, None, text)
    none = data.without_destination(generation)
    kept = len(data.parked_keys(generation, None, none.next_offset))
    if kept != none.refused:
        text = f"{none.refused} refused destinations are counted, {wire.USER_ERRORS} holds {kept}"
        yield Finding(Code.WRONG_TOTAL, generation.source, None, text)


def check_waiting(data: AuditData, generation: Generation) -> Iterable[Finding]:
    """Compare waiting totals with the events that the databases hold."""
    for name, database in data.databases.items():
        counted = sum(n for (_, outcome), n in database.counted(generation).items() if outcome == "waiting")
        kept = len(database.waiting_of(generation))
        if kept != counted:
            text = f"{name} counts {counted} waiting, onramp.waiting holds {kept}"
            yield Finding(Code.WRONG_TOTAL, generation.source, None, text)
