"""Claims the driver's partitions in the databases' ledgers, and compares the ledgers with its positions.

A ledger behind the writer's position, without markers that cover the difference, is a gap.  No
healthy history ends with a gap.
"""

from collections.abc import Iterable, Mapping

from services.writer.databases import halts
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.databases.halts import Gap
from services.writer.model.next_offsets import Position, by_generation
from services.writer.partitions.plan_log import PlanLog
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from shared.errors import LEDGER_GAP, InfrastructureError
from shared.kafka_read.offsets import Generation, Partition


class Claims:
    """The claims of one writer, under its epoch.  All methods block."""

    def __init__(self, plan_log: PlanLog, index: DivertedIndex, epoch: int) -> None:
        self._plan_log = plan_log
        self._index = index
        self._epoch = epoch

    def claim(self, database: Database, positions: Mapping[Partition, Position]) -> None:
        """Set this writer's epoch on the ledger rows of `positions` and undrained markers, and compare.

        A missing row is created at its recorded baseline (the model's rule `baseline_kept`).  Raises
        `InfrastructureError`: FENCED, or LEDGER_GAP when a ledger is behind and markers do not cover it.
        """
        # Markers of a deleted topic are claimed too: their events still land.
        starts = self._starts(
            database.name, by_generation(positions).keys() | self._index.generations(database.name)
        )
        if not starts:
            return
        with transaction(database, "driver") as conn:
            next_offsets = ledger.claim(conn, starts, self._epoch)
        self._index.remove_settled(database.name, next_offsets)
        self._check_gaps(database.name, next_offsets, positions)

    def compare(self, database: Database, positions: Mapping[Partition, Position]) -> None:
        """Check that the idle ledger did not go back.  Raises `InfrastructureError` (LEDGER_GAP)."""
        with transaction(database, "driver") as conn:
            next_offsets = ledger.read(conn, by_generation(positions), self._epoch)
        self._check_gaps(database.name, next_offsets, positions)

    def gaps(self, database: Database, positions: Mapping[Partition, Position]) -> list[Gap]:
        """Return the offsets missing in `database`, by partition."""
        ends = by_generation(positions)
        return halts.gaps(database, self._starts(database.name, ends), ends, self._index, self._epoch)

    def _starts(self, name: str, generations: Iterable[Generation]) -> dict[Generation, int]:
        """Return the starts of missing ledger rows: their recorded baselines."""
        return {
            generation: self._plan_log.baselines[generation.topic_id, generation.partition.number][name]
            for generation in generations
        }

    def _check_gaps(
        self, name: str, next_offsets: Mapping[Generation, int], positions: Mapping[Partition, Position]
    ) -> None:
        for generation, next_offset in by_generation(positions).items():
            if not self._index.covers(name, generation, next_offsets.get(generation, -1), next_offset):
                raise InfrastructureError(
                    LEDGER_GAP,
                    f"{generation.partition}: the ledger of {name} stands at "
                    f"{next_offsets.get(generation)}, the writer at {next_offset}, and no waiting events "
                    "cover the difference: was the database restored from a dump?",
                )
