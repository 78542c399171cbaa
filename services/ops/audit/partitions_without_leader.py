"""What the audit can say while a partition has no leader: what needs it is unchecked, the rest is judged."""

from services.ops.audit.ledgers import Books
from services.ops.findings import Report
from shared.topics import OWN_TOPICS


def report_leaderless(books: Books, report: Report) -> bool:
    """Report what cannot be read.  False: some of it is Onramp's own topics, so no partition can be judged.

    What is parked or waits, and since when, would be missing where it is not: rows against their
    totals are then all that databases prove by themselves.
    """
    own = {topic.name for topic in OWN_TOPICS}
    for source in sorted(books.leaderless):
        rest = (
            "only rows were compared with their totals"
            if source.topic in own
            else "what Kafka holds there was not compared with the books"
        )
        report.unchecked.append(f"{source}: no broker leads it, so {rest}")
    return not any(source.topic in own for source in books.leaderless)
