"""Checks of ledgers, totals, outbox, markers and counted rows against each other, and their findings.

Everything here is arithmetic over collected data, without Kafka and Postgres.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from services.ops.audit.ledgers import Books, between
from services.ops.audit.replays import redirected
from services.ops.findings import Code, Finding, Generation, Line, Report, Source, Table
from shared import wire

_LANDED: Final = ("landed", "replayed")


def line_of(books: Books, generation: Generation) -> Line:
    """Return the totals of one generation."""
    none = books.without_destination(generation)
    names = [n for n, d in books.databases.items() if generation in d.ledger]
    line = Line(
        generation.topic_id, *generation.source, books.start(generation), books.next_offset(generation)
    )
    line.filtered, line.unroutable, line.refused = none.filtered, none.unroutable, none.refused
    outcomes: Counter[str] = Counter()
    for name in names:
        for (_, outcome), n in books.databases[name].counted(generation).items():
            outcomes[outcome] += n
        line.waiting += len(books.waiting(name, generation))
    line.waiting += outcomes.pop("waiting", 0)
    line.outcomes = dict(sorted(outcomes.items()))
    return line


def one_destination(books: Books, generation: Generation) -> bool:
    """Return whether all events of `generation` with a destination have the same one."""
    destinations = {
        (name, destination) for name, d in books.databases.items() for destination, _ in d.counted(generation)
    }
    waiting = {name for name in books.databases if books.waiting(name, generation)}
    if len(destinations) > 1 or len(waiting) > 1:
        return False
    return not waiting or {name for name, _ in destinations} in (waiting, set())


def check_markers(books: Books, generation: Generation) -> Iterable[Finding]:
    """Yield undrained markers whose count differs from the topic's: their drain would halt."""
    for database in books.databases:
        settled_to = books.databases[database].ledger.get(generation, 0)
        diverted = books.diverted.get((database, generation.source), ())
        for m in books.markers.get((database, generation), ()):
            held_count = len(between(diverted, m.start, m.end))
            if m.end > settled_to and (
                held_count < m.count or (held_count > m.count and not books.is_shared(m))
            ):
                yield Finding(
                    Code.BAD_MARKER,
                    generation.source,
                    m.start,
                    f"the marker of [{m.start}, {m.end}) for {database} counts {m.count} events, "
                    f"{wire.SYSTEM_ERRORS} holds {held_count}",
                )


def check_rows(books: Books, report: Report) -> None:
    """Compare rows with landed totals, and report receipts in several rows."""
    for name, database in books.databases.items():
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
            if n > max(len(books.containing(source, offset)), 1):
                text = f"{n} rows of {table} have this receipt"
                report.findings.append(Finding(Code.DUPLICATE, source, offset, text))


def report_unread_tables(books: Books, report: Report) -> None:
    """Report the tables with receipts that the audit's role may not read, and whose rows are unchecked."""
    for database in books.databases.values():
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


def check_parked(books: Books, generation: Generation) -> Iterable[Finding]:
    """Compare parked totals with the distinct keys on the topic and in the outbox."""
    if books.shares_offsets(generation.source):
        return  # the keys name the topic, not its generation
    for name, database in books.databases.items():
        counted = sum(n for (_, outcome), n in database.counted(generation).items() if outcome == "parked")
        kept = len(books.parked_keys(generation, name, database.ledger.get(generation, 0)))
        if kept != counted:
            text = f"{name} counts {counted} parked, {wire.USER_ERRORS} and the outbox hold {kept}"
            yield Finding(Code.WRONG_TOTAL, generation.source, None, text)
    none = books.without_destination(generation)
    kept = len(books.parked_keys(generation, None, none.next_offset))
    if kept != none.refused:
        text = f"{none.refused} refused destinations are counted, {wire.USER_ERRORS} holds {kept}"
        yield Finding(Code.WRONG_TOTAL, generation.source, None, text)


def check_waiting(books: Books, generation: Generation) -> Iterable[Finding]:
    """Compare waiting totals with the events that the databases hold."""
    for name, database in books.databases.items():
        counted = sum(n for (_, outcome), n in database.counted(generation).items() if outcome == "waiting")
        kept = len(database.waiting_of(generation))
        if kept != counted:
            text = f"{name} counts {counted} waiting, onramp.waiting holds {kept}"
            yield Finding(Code.WRONG_TOTAL, generation.source, None, text)
