"""Evaluates some thousand events under both rules: by the gateway's checks, SORT and the tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.model.targets import Target
from services.writer.persist.row_results import PersistResult
from services.writer.persist.table_copies import Variant
from services.writer.persist.table_rights import UntriedError
from services.writer.plan import gateway_checks
from services.writer.plan.outcome_diff import EventOutcomes
from services.writer.plan.reasons import Reason, parked, refusal
from services.writer.plan.rules import Rules, TableName
from services.writer.sort.sort import sort_parsed
from shared.kafka_read.records import PartitionSlice
from shared.parse.slices import Parsed, parse

#: A function that writes rows into a copy of their table and rolls back; it raises `UntriedError`.
Persist = Callable[[Variant, pa.Table], PersistResult]
_Indices = np.ndarray[Any, np.dtype[np.int64]]
#: Event type of packets, which have no event name.
PACKETS: Final = "packets on {}"
NO_EVENT: Final = "(no event) on {}"


class Chunk:
    """Events that were read together, identified by their indices in the chunk."""

    def __init__(self, slices: Sequence[PartitionSlice]) -> None:
        """Parse `slices`; at least one is required."""
        self.parsed: Parsed = parse(slices)
        self._starts = np.cumsum([0, *(len(each) for each in slices)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def names(self) -> list[str]:
        """Return the event type under which each event is counted."""
        columns, topics = self.parsed.events.columns, self.parsed.rows.column("_topic").to_pylist()
        named: list[str] = columns.column("event_name").to_pylist()
        contexts = columns.column("context").is_valid()
        errors = self.parsed.events.errors
        if None not in named and not errors:
            return named
        packets = contexts.to_pylist()
        return [
            NO_EVENT.format(topics[i]) if i in errors else name or _unnamed(topics[i], is_packet=packets[i])
            for i, name in enumerate(named)
        ]

    def receipt(self, index: int) -> str:
        """Return the receipt of an event: topic, partition and offset."""
        row = self.parsed.rows.slice(index, 1).select(["_topic", "_partition", "_offset"]).to_pylist()[0]
        return f"{row['_topic']}/{row['_partition']}@{row['_offset']}"

    def value(self, index: int) -> bytes | None:
        """Return an event's bytes."""
        at = int(np.searchsorted(self._starts, index, side="right")) - 1
        column = self.parsed.slices[at].rows.column("value")
        value: bytes | None = column[index - int(self._starts[at])].as_py()
        return value

    def evaluate(self, sides: Sequence[Rules], persist: Persist) -> list[EventOutcomes]:
        """Return the outcomes of the events under each of `sides`; shared rows and tables are tried once."""
        values = pa.concat_arrays([each.rows.column("value") for each in self.parsed.slices])
        refused = gateway_checks.refused(self.parsed.events.columns, pc.binary_length(values), sides)
        sorted_by: dict[str, tuple[EventOutcomes, dict[Target, _Indices]]] = {}
        outcomes: list[EventOutcomes] = []
        wanted: dict[Variant, list[tuple[EventOutcomes, _Indices]]] = {}
        for side, of_side in zip(sides, refused, strict=True):
            if side.routes.digest not in sorted_by:
                sorted_by[side.routes.digest] = self._sorted(side)
            routed, tables = sorted_by[side.routes.digest]
            rejected = {index: dict(reasons) for index, reasons in routed.parked.items()}
            one = EventOutcomes(destinations=routed.destinations, refused=of_side, parked=rejected)
            outcomes.append(one)
            for target, indices in tables.items():
                variant = Variant(target, side.adds.get(TableName(*target[:3]), ()) if target.typed else ())
                left = indices[~np.isin(indices, list(of_side))] if of_side else indices
                wanted.setdefault(variant, []).append((one, left))
        for variant, of_sides in wanted.items():
            self._try(variant, of_sides, persist)
        return outcomes

    def _sorted(self, side: Rules) -> tuple[EventOutcomes, dict[Target, _Indices]]:
        """SORT the events: return the event indices of each table, and the rejected destinations."""
        destinations = np.zeros(len(self), dtype=np.int64)
        tables: dict[Target, list[_Indices]] = {}
        out = EventOutcomes(destinations=destinations)
        results = sort_parsed(self.parsed, side.routes)
        for start, each, result in zip(self._starts.tolist(), self.parsed.slices, results, strict=False):
            offsets = each.rows.column("offset").to_numpy()
            for target, rows in result.tables.items():
                indices = start + np.searchsorted(offsets, rows.column("_offset").to_numpy())
                tables.setdefault(target, []).append(indices)
                destinations[indices] += 1
            for u in result.unroutable:
                index = start + int(np.searchsorted(offsets, u.offset))
                destinations[index] += 1
                out.park(index, u.destination or "(none)", refusal(u.error))
        return out, {target: np.concatenate(parts) for target, parts in tables.items()}

    def _try(
        self, variant: Variant, of_sides: Sequence[tuple[EventOutcomes, _Indices]], persist: Persist
    ) -> None:
        """Record, for each side, the outcomes of the events that the side sends to a table."""
        indices = np.unique(np.concatenate([each for _, each in of_sides]))
        if not len(indices):
            return
        name = TableName(*variant.target[:3])
        rows = pa.Table.from_batches([self.parsed.rows.take(pa.array(indices))])
        try:
            result = persist(variant, rows)
        except UntriedError:
            for outcomes, of_side in of_sides:
                outcomes.leave(of_side.tolist(), str(name))
            return
        reasons = {
            int(indices[p.row_index]): self._reason(name, rows, p.row_index, p.error) for p in result.parked
        }
        for outcomes, of_side in of_sides:
            for index in reasons.keys() & set(of_side.tolist()) if reasons else ():
                outcomes.park(index, str(name), reasons[index])

    def _reason(self, name: TableName, rows: pa.Table, row: int, error: Any) -> Reason:
        in_packet = rows.column("_id")[row].as_py() is None
        return parked(error, name, error.detail, in_packet=in_packet)


def _unnamed(topic: str, *, is_packet: bool) -> str:
    return (PACKETS if is_packet else NO_EVENT).format(topic)


def by_name(names: Sequence[str]) -> Mapping[str, list[int]]:
    """Return the indices of the events of each type."""
    out: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        out.setdefault(name, []).append(index)
    return out
