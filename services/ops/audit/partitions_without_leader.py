"""Limits the audit to what it can check while a partition has no leader."""

from services.ops.audit.ledgers import Books
from services.ops.findings import Report
from shared.topics import OWN_TOPICS


def report_leaderless(books: Books, report: Report) -> bool:
    """Report unreadable partitions; return False if Onramp's own topics are among them.

    Without these topics parked and waiting events would seem missing, so only rows can be compared with
    their totals.
    """
    own = {topic.name for topic in OWN_TOPICS}
    for source in sorted(books.leaderless):
        rest = (
            "only rows were compared with their totals"
            if source.topic in own
            else "its records on Kafka were not compared with the totals"
        )
        report.unchecked.append(f"{source}: no broker leads it, so {rest}")
    return not any(source.topic in own for source in books.leaderless)
