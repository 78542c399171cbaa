"""Halts: a database whose ledger is behind says so in itself, and there a person resolves it.

The writer notes the halt and asks for the resolution while it lasts.  A resolution holds
for this halt alone: a new halt begins without one.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from services.writer.model.offsets import Incarnation, Partition, Range
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.recover.diverted_index import DivertedIndex
from services.writer.settle import ledger

log = logging.getLogger(__name__)

#: The right data are back: compare again.
RECHECK: Final = "recheck"
#: Land again, from Kafka, what is missing.
REPLAY: Final = "replay"
#: Do without what is missing.
SKIP: Final = "skip"

_NOTE: Final = """
    INSERT INTO onramp.halts (reason) VALUES (%s)
    ON CONFLICT (one) DO UPDATE SET reason = excluded.reason RETURNING resolution
"""
_BEGIN: Final = """
    INSERT INTO onramp.halts (reason) VALUES (%s)
    ON CONFLICT (one) DO UPDATE
    SET reason = excluded.reason, since = now(), resolution = NULL, resolved_by = NULL
"""


class Gap(NamedTuple):
    """What is missing of a partition in a database: offsets `start` (included) to `end` (excluded).

    `marked`: a marker says that it waits on Kafka, and is to be replaced.
    """

    topic_id: str
    partition: Partition
    start: int
    end: int
    marked: bool

    @property
    def range(self) -> Range:
        """All of it."""
        return Range(self.topic_id, self.partition, self.start, self.end)

    def pieces(self, max_offsets: int) -> list[Range]:
        """The gap as ranges of at most `max_offsets` offsets; a marker is replaced whole."""
        if self.marked:
            return [self.range]
        starts = range(self.start, self.end, max_offsets)
        return [Range(self.topic_id, self.partition, at, min(at + max_offsets, self.end)) for at in starts]


def begin(database: Database, reason: str) -> None:
    """Note that `database` is halted, without a resolution."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_BEGIN, (reason,))


def ask(database: Database, reason: str) -> str | None:
    """The person's resolution, None while there is none; a note that went away is written again."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_NOTE, (reason,))
        found = cursor.fetchone()
        return found[0] if found else None


def clear(database: Database) -> None:
    """The database is halted no more."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute("DELETE FROM onramp.halts")


def gaps(
    database: Database,
    starts: Mapping[Incarnation, int],
    upto: Mapping[Incarnation, int],
    index: DivertedIndex,
    epoch: int,
) -> list[Gap]:
    """What is missing in `database`, partition by partition, up to where the writer stands."""
    with transaction(database, "driver") as conn:
        at = ledger.claim(conn, starts, epoch)
    found = []
    for incarnation, end in upto.items():
        marked = index.covers(database.name, incarnation, at[incarnation], end)
        found.append(
            Gap(*incarnation, *index.missing(database.name, incarnation, at[incarnation], end), marked)
        )
    return [gap for gap in found if gap.start < gap.end]


def skip(database: Database, missing: Sequence[Gap], epoch: int) -> None:
    """Do without what is missing: the ledger moves on, and the audit will name what is lost.

    What a marker says waits on Kafka, so it is not given up.
    """
    ranges = [gap.range for gap in missing if not gap.marked]
    if not ranges:
        return
    with transaction(database, "driver") as conn:
        at = ledger.lock(conn, ranges, epoch)
        ledger.pass_over(conn, [r for r in ranges if at[r.partition] < r.end], epoch)
    log.error(
        "what is missing in a database is given up",
        extra={"database": database.name, "ranges": [str(r) for r in ranges]},
    )
