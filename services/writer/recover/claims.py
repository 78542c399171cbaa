"""What the driver says and asks of the databases' ledgers: it claims its partitions there, and compares.

A ledger that is behind what the writer knows to be settled, and not led back by what waits,
is a gap: no healthy history ends like that.
"""

from collections.abc import Iterable, Mapping

from services.writer.model.next_offsets import Position, by_incarnation
from services.writer.model.offsets import Incarnation, Partition
from services.writer.partitions.plan_log import PlanLog
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.recover import database_halts
from services.writer.recover.database_halts import Gap
from services.writer.recover.diverted_index import DivertedIndex
from services.writer.settle import ledger
from shared.errors import LEDGER_GAP, InfrastructureError


class Claims:
    """One writer's, under its epoch.  All of it blocks."""

    def __init__(self, plan_log: PlanLog, index: DivertedIndex, epoch: int) -> None:
        self._plan_log = plan_log
        self._index = index
        self._epoch = epoch

    def claim(self, database: Database, positions: Mapping[Partition, Position]) -> None:
        """Put this writer's epoch on the ledger rows of `positions` and of what waits, and compare.

        A missing row is created at its recorded baseline.  Raises `InfrastructureError`: a
        ledger that is behind and not covered by what waits is a gap.
        """
        # What waits may be of a topic that was deleted since: it lands all the same.
        starts = self._starts(
            database.name, by_incarnation(positions).keys() | self._index.incarnations(database.name)
        )
        if not starts:
            return
        with transaction(database, "driver") as conn:
            at = ledger.claim(conn, starts, self._epoch)
        self._index.remove_settled(database.name, at)
        self._see_gap(database.name, at, positions)

    def compare(self, database: Database, positions: Mapping[Partition, Position]) -> None:
        """Raises `InfrastructureError` when the ledger went back while nothing landed."""
        with transaction(database, "driver") as conn:
            at = ledger.read(conn, by_incarnation(positions), self._epoch)
        self._see_gap(database.name, at, positions)

    def gaps(self, database: Database, positions: Mapping[Partition, Position]) -> list[Gap]:
        """What is missing in `database`, partition by partition."""
        upto = by_incarnation(positions)
        return database_halts.gaps(
            database, self._starts(database.name, upto), upto, self._index, self._epoch
        )

    def _starts(self, name: str, incarnations: Iterable[Incarnation]) -> dict[Incarnation, int]:
        """Where a missing ledger row begins: at its recorded baseline."""
        return {
            incarnation: self._plan_log.baselines[incarnation.topic_id, incarnation.partition.number][name]
            for incarnation in incarnations
        }

    def _see_gap(
        self, name: str, at: Mapping[Incarnation, int], positions: Mapping[Partition, Position]
    ) -> None:
        for incarnation, next_offset in by_incarnation(positions).items():
            if not self._index.covers(name, incarnation, at.get(incarnation, -1), next_offset):
                raise InfrastructureError(
                    LEDGER_GAP,
                    f"{incarnation.partition}: the ledger of {name} stands at {at.get(incarnation)}, "
                    f"the writer at {next_offset}, and what waits does not lead there: "
                    "was it restored from a dump?",
                )
