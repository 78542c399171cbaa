"""Detects a writer that works during the audit, so that the totals are of different times.

Each database is read in its own snapshot, and Kafka after them.  A batch that has landed in one of
them only, or is not counted yet, is not a violation, and its totals do not reconcile.
"""

from services.ops.audit.ledgers import Books
from services.ops.findings import Incarnation


def concurrent_writer(books: Books, incarnation: Incarnation) -> str | None:
    """Return why the counts of this partition are of different times, or None if they are consistent."""
    covered = {
        name: books.covered(name, incarnation)
        for name, database in books.databases.items()
        if incarnation in database.ledger
    }
    if len(set(covered.values())) > 1:
        offsets = ", ".join(f"{name} {offset}" for name, offset in sorted(covered.items()))
        return f"the next offsets of the databases are {offsets}"
    next_offset = next(iter(covered.values()))
    if books.without_destination(incarnation).next_offset > next_offset:
        return "more was settled while the books were read"
    if not _is_newest(books, incarnation):  # the group's offset is the newest's
        return None
    group = books.group.get(incarnation.source, books.start(incarnation))
    if group < next_offset:
        return f"the writer's group is at {group} and the ledger at {next_offset}: a batch is not committed"
    return None


def in_progress(books: Books, incarnation: Incarnation, database: str) -> range:
    """Return the offsets that another database has settled and `database` had not when it was read."""
    if not _is_newest(books, incarnation):
        return range(0)
    committed = books.committed.get(incarnation.source, 0)
    first = max(books.covered(database, incarnation), committed, books.baseline(incarnation).get(database, 0))
    return range(first, books.next_offset(incarnation))


def _is_newest(books: Books, incarnation: Incarnation) -> bool:
    return incarnation.topic_id == books.topic_ids[incarnation.source][-1]
