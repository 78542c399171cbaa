"""Halts of databases whose ledger is behind: recorded in the database, in which an operator resolves them.

The writer records the halt and reads the resolution until it ends.  A resolution is valid for one
halt: a new halt starts without one.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from services.writer.databases.diverted_index import DivertedIndex
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from shared.kafka_read.offsets import Generation, Partition, Range

log = logging.getLogger(__name__)

#: The right data were restored: compare again.
RECHECK: Final = "recheck"
#: Land the missing events again, from Kafka.
REFILL: Final = "refill"
#: Give up the missing events.
SKIP: Final = "skip"

_RESTORE_RECORD: Final = """
    INSERT INTO onramp.halts (reason) VALUES (%s)
    ON CONFLICT (one) DO UPDATE SET reason = excluded.reason RETURNING resolution
"""
_RECORD: Final = """
    INSERT INTO onramp.halts (reason) VALUES (%s)
    ON CONFLICT (one) DO UPDATE
    SET reason = excluded.reason, since = now(), resolution = NULL, resolved_by = NULL
"""


class Gap(NamedTuple):
    """Offsets `start` (included) to `end` (excluded) of a partition that are missing in a database.

    `marked`: a marker says that they wait on Kafka; the marker is to be replaced.
    """

    topic_id: str
    partition: Partition
    start: int
    end: int
    marked: bool

    @property
    def range(self) -> Range:
        """Return the gap as one range."""
        return Range(self.topic_id, self.partition, self.start, self.end)

    def pieces(self, max_offsets: int) -> list[Range]:
        """Return the gap as ranges of at most `max_offsets` offsets; a marker is replaced whole."""
        if self.marked:
            return [self.range]
        starts = range(self.start, self.end, max_offsets)
        return [
            Range(self.topic_id, self.partition, start, min(start + max_offsets, self.end))
            for start in starts
        ]


def record(database: Database, reason: str) -> None:
    """Record that `database` is halted, without a resolution."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_RECORD, (reason,))


def resolution(database: Database, reason: str) -> str | None:
    """Return the operator's resolution, or None; write the record of the halt again if it was lost."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_RESTORE_RECORD, (reason,))
        row = cursor.fetchone()
        return row[0] if row else None


def clear(database: Database) -> None:
    """Remove the record of the halt."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute("DELETE FROM onramp.halts")


def gaps(
    database: Database,
    starts: Mapping[Generation, int],
    ends: Mapping[Generation, int],
    index: DivertedIndex,
    epoch: int,
) -> list[Gap]:
    """Return the offsets missing in `database`, by partition, up to the writer's positions."""
    with transaction(database, "driver") as conn:
        next_offsets = ledger.claim(conn, starts, epoch)
    missing = []
    for generation, end in ends.items():
        marked = index.covers(database.name, generation, next_offsets[generation], end)
        missing.append(
            Gap(
                *generation,
                *index.missing(database.name, generation, next_offsets[generation], end),
                marked,
            )
        )
    return [gap for gap in missing if gap.start < gap.end]


def skip(database: Database, missing: Sequence[Gap], epoch: int) -> None:
    """Move the ledger behind the missing offsets; the audit will name the lost events.

    Ranges with a marker wait on Kafka, so they are not skipped.
    """
    ranges = [gap.range for gap in missing if not gap.marked]
    if not ranges:
        return
    with transaction(database, "driver") as conn:
        next_offsets = ledger.lock(conn, ranges, epoch)
        ledger.skip(conn, [r for r in ranges if next_offsets[r.partition] < r.end], epoch)
    log.error(
        "skipped the events that are missing in a database",
        extra={"database": database.name, "ranges": [str(r) for r in ranges]},
    )
