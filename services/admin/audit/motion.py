"""A writer in the middle of its work: what the books say then is not of one moment.

Each database is read at a moment of its own, Kafka after them.  What a batch has brought to one
of them and not to another, or not yet counted, is no violation, and no sum over it balances.
"""

from services.admin.audit.books import Books
from services.admin.findings import Life


def moving(books: Books, life: Life) -> str | None:
    """Why the counts of this partition are not of one moment, if so."""
    stands = {n: books.covered(n, life) for n, d in books.databases.items() if life in d.ledger}
    if len(set(stands.values())) > 1:
        return f"the databases stand at {', '.join(f'{n} {at}' for n, at in sorted(stands.items()))}"
    at = next(iter(stands.values()))
    if books.without_destination(life).next_offset > at:
        return "more was settled while the books were read"
    if not _is_todays(books, life):  # the group stands in today's
        return None
    group = books.group.get(life.source, books.start(life))
    if group < at:
        return f"the writer's group stands at {group} and the ledger at {at}: it is in the middle of a batch"
    return None


def under_way(books: Books, life: Life, database: str) -> range:
    """What another database has settled and `database` had not when it was read, and may yet."""
    if not _is_todays(books, life):
        return range(0)
    committed = books.committed.get(life.source, 0)
    first = max(books.covered(database, life), committed, books.baseline(life).get(database, 0))
    return range(first, books.stand(life))


def _is_todays(books: Books, life: Life) -> bool:
    return life.topic_id == books.lives[life.source][-1]
