"""Some thousand events under both rules: what the gateway, SORT and the tables make of each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.model.records import PartitionSlice
from services.writer.model.targets import Target
from services.writer.persist.row_results import PersistResult
from services.writer.persist.table_copies import Variant
from services.writer.persist.table_rights import UntriedError
from services.writer.plan import gateway_checks
from services.writer.plan.outcome_diff import Judged
from services.writer.plan.reasons import Reason, parked, refusal
from services.writer.plan.rules import Rules, TableName
from services.writer.sort.sort import Parsed, parse, sort_parsed

#: Writes rows into a copy of a table of theirs and undoes it.  Raise `UntriedError`.
Persist = Callable[[Variant, pa.Table], PersistResult]
_Places = np.ndarray[Any, np.dtype[np.int64]]
#: Of packets, which have no event name.
PACKETS: Final = "packets on {}"
NO_EVENT: Final = "(no event) on {}"


class Chunk:
    """Events that were read together, told by their places in it."""

    def __init__(self, slices: Sequence[PartitionSlice]) -> None:
        """Parse `slices`, of which there is one at least."""
        self.parsed: Parsed = parse(slices)
        self._starts = np.cumsum([0, *(len(each) for each in slices)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def names(self) -> list[str]:
        """Return the event type of each, as it is counted."""
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

    def receipt(self, place: int) -> str:
        """Return where Kafka holds an event."""
        row = self.parsed.rows.slice(place, 1).select(["_topic", "_partition", "_offset"]).to_pylist()[0]
        return f"{row['_topic']}/{row['_partition']}@{row['_offset']}"

    def value(self, place: int) -> bytes | None:
        """Return an event's bytes."""
        at = int(np.searchsorted(self._starts, place, side="right")) - 1
        column = self.parsed.slices[at].rows.column("value")
        value: bytes | None = column[place - int(self._starts[at])].as_py()
        return value

    def judge(self, sides: Sequence[Rules], persist: Persist) -> list[Judged]:
        """Return what each of `sides` makes of the events; equal rows go into equal tables once."""
        values = pa.concat_arrays([each.rows.column("value") for each in self.parsed.slices])
        refused = gateway_checks.refused(self.parsed.events.columns, pc.binary_length(values), sides)
        sorted_by: dict[str, tuple[Judged, dict[Target, _Places]]] = {}
        judged: list[Judged] = []
        wanted: dict[Variant, list[tuple[Judged, _Places]]] = {}
        for side, of_side in zip(sides, refused, strict=True):
            if side.routes.digest not in sorted_by:
                sorted_by[side.routes.digest] = self._sorted(side)
            routed, tables = sorted_by[side.routes.digest]
            rejected = {place: dict(reasons) for place, reasons in routed.parked.items()}
            one = Judged(destinations=routed.destinations, refused=of_side, parked=rejected)
            judged.append(one)
            for target, places in tables.items():
                variant = Variant(target, side.adds.get(TableName(*target[:3]), ()) if target.typed else ())
                left = places[~np.isin(places, list(of_side))] if of_side else places
                wanted.setdefault(variant, []).append((one, left))
        for variant, asked in wanted.items():
            self._try(variant, asked, persist)
        return judged

    def _sorted(self, side: Rules) -> tuple[Judged, dict[Target, _Places]]:
        """SORT: which events go to which tables, and which destinations are rejected."""
        destinations = np.zeros(len(self), dtype=np.int64)
        tables: dict[Target, list[_Places]] = {}
        out = Judged(destinations=destinations)
        results = sort_parsed(self.parsed, side.routes)
        for start, each, found in zip(self._starts.tolist(), self.parsed.slices, results, strict=False):
            offsets = each.rows.column("offset").to_numpy()
            for target, rows in found.tables.items():
                places = start + np.searchsorted(offsets, rows.column("_offset").to_numpy())
                tables.setdefault(target, []).append(places)
                destinations[places] += 1
            for u in found.unroutable:
                place = start + int(np.searchsorted(offsets, u.offset))
                destinations[place] += 1
                out.park(place, u.destination or "(none)", refusal(u.error))
        return out, {target: np.concatenate(parts) for target, parts in tables.items()}

    def _try(self, variant: Variant, asked: Sequence[tuple[Judged, _Places]], persist: Persist) -> None:
        """Note for each side what a table makes of the events that the side sends there."""
        places = np.unique(np.concatenate([each for _, each in asked]))
        if not len(places):
            return
        name = TableName(*variant.target[:3])
        rows = pa.Table.from_batches([self.parsed.rows.take(pa.array(places))])
        try:
            result = persist(variant, rows)
        except UntriedError:
            for judged, of_side in asked:
                judged.leave(of_side.tolist(), str(name))
            return
        found = {
            int(places[p.row_index]): self._reason(name, rows, p.row_index, p.error) for p in result.parked
        }
        for judged, of_side in asked:
            for place in found.keys() & set(of_side.tolist()) if found else ():
                judged.park(place, str(name), found[place])

    def _reason(self, name: TableName, rows: pa.Table, row: int, error: Any) -> Reason:
        in_packet = rows.column("_id")[row].as_py() is None
        return parked(error, name, error.detail, in_packet=in_packet)


def _unnamed(topic: str, *, is_packet: bool) -> str:
    return (PACKETS if is_packet else NO_EVENT).format(topic)


def by_name(names: Sequence[str]) -> Mapping[str, list[int]]:
    """Return the places of the events of each type."""
    out: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        out.setdefault(name, []).append(place)
    return out
