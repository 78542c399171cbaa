"""Detects a writer that works during the audit, so that the totals are of different times.

Each database is read in its own snapshot, and Kafka after them.  A batch that has landed in one of
them only, or is not counted yet, is not a violation, and its totals do not reconcile.
"""

from services.ops.audit.audit_data import AuditData
from services.ops.findings import Generation


def concurrent_writer(data: AuditData, generation: Generation) -> str | None:
    """Return why the counts of this partition are of different times, or None if they are consistent."""
    covered = {
        name: data.covered(name, generation)
        for name, database in data.databases.items()
        if generation in database.ledger
    }
    if len(set(covered.values())) > 1:
        offsets = ", ".join(f"{name} {offset}" for name, offset in sorted(covered.items()))
        return f"the next offsets of the databases are {offsets}"
    next_offset = next(iter(covered.values()))
    if data.without_destination(generation).next_offset > next_offset:
        return "more was settled during the audit"
    if not _is_newest(data, generation):  # the group's offset is the newest's
        return None
    group = data.group.get(generation.source, data.start(generation))
    if group < next_offset:
        return f"the writer's group is at {group} and the ledger at {next_offset}: a batch is not committed"
    return None


def in_progress(data: AuditData, generation: Generation, database: str) -> range:
    """Return the offsets that another database has settled and `database` had not when it was read."""
    if not _is_newest(data, generation):
        return range(0)
    committed = data.committed.get(generation.source, 0)
    first = max(data.covered(database, generation), committed, data.baseline(generation).get(database, 0))
    return range(first, data.next_offset(generation))


def _is_newest(data: AuditData, generation: Generation) -> bool:
    return generation.topic_id == data.topic_ids[generation.source][-1]
