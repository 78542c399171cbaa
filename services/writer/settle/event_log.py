"""A line for every event and destination, when the operator asks for it: ids and outcomes, never values.

Written after the commit that makes them true; what is rolled back has no line.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from services.writer.model.offsets import Partition
from services.writer.model.targets import Target
from services.writer.persist.row_results import PersistResult
from shared.errors import OnrampError
from shared.outcomes import Outcome
from shared.steps import Step

log = logging.getLogger(__name__)

Entry = dict[str, Any]
_COLUMNS: Final = ("_id", "_topic", "_partition", "_offset")


def outcome_entries(
    target: Target,
    rows: pa.Table | pa.RecordBatch,
    result: PersistResult | None,
    late_rows: Collection[int] = (),
) -> Iterator[Entry]:
    """What became of `rows` in `target`.

    Those at the places `late_rows` wait; all, when nothing was `result`: its database is out, or it is held.
    """
    parked = {p.row_index: p.error.fault.code for p in result.parked} if result else {}
    for row_index, row in enumerate(rows.select(list(_COLUMNS)).to_pylist()):
        partition, code = Partition(row["_topic"], row["_partition"]), None
        if result is None or row_index in late_rows:
            outcome = Outcome.WAITING
        elif row_index in parked:
            outcome, code = Outcome.PARKED, parked[row_index]
        else:
            outcome = Outcome.LANDED if result.mask[row_index] else Outcome.DUPLICATE
        entry = _entry(partition, row["_offset"], Step.PERSIST, outcome, target)
        yield entry | {"event_id": row["_id"], "code": code}


def parked_entry(partition: Partition, offset: int, error: OnrampError) -> Entry:
    """Return the entry of an event, or of one destination of it, that was parked without a database."""
    return _entry(partition, offset, Step.SORT, Outcome.PARKED) | {"code": error.fault.code}


def _entry(
    partition: Partition, offset: int, step: Step, outcome: Outcome, target: Target | None = None
) -> Entry:
    where = {"database": target.database, "table": str(target)} if target else {}
    receipt = f"{partition}/{offset}"
    return {"receipt": receipt, "step": step, "outcome": outcome, **where}


def write(entries: Iterable[Entry]) -> None:
    """Log the entries."""
    for entry in entries:
        log.info("event", extra={name: value for name, value in entry.items() if value is not None})
