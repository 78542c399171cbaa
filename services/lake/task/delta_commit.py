"""Commits rows to one table: open its newest version, drop the settled rows, commit the others on it.

delta-rs refuses the second of two commits from one version that name the same transaction identifier, and
accepts the same identifier again from a newer version.  So the comparison is made here, on the version that
the commit is based on: each row is committed once, whatever happens to the answer of a commit.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from services.lake.task.dates import dates
from services.lake.task.order import LakeOrder, TableReport
from services.lake.task.typed_columns import typed_columns
from shared import failpoints
from shared.errors import LAKE_TABLE_HALTED, LAKE_UNAVAILABLE, InfrastructureError
from shared.kafka_read.offsets import Partition
from shared.lake.delta_log import open_table, owner_of, position_of
from shared.lake.lake_tables import MONTH, Kind, LakeTable, Partitioning, column_names
from shared.lake.lake_topic import PositionKey
from shared.lake.table_columns import base_schema, kind_of, typed_fields
from shared.lake.transactions import OWNER, TablePosition, landed_id, position_id

#: Attempts at one commit: each refusal means that another commit succeeded.
_MAX_ATTEMPTS: Final = 20
_MAX_DETAIL: Final = 300
_PROPERTIES: Final = {
    "delta.checkpointInterval": "20",
    # Statistics of payloads would copy their values to the log.
    "delta.dataSkippingStatsColumns": "_timestamp,_received_at,_partition,_offset",
}
#: Colours and backtraces in the errors of delta-rs.
_NOISE: Final = re.compile(r"\x1b\[[0-9;]*m|\n\s+0: .*", re.DOTALL)
_PLAIN: Final = ColumnProperties(dictionary_enabled=False)
#: Compaction compresses more.  Zstandard costs 1.2 µs a row here, and dictionaries of unequal values 0.5 µs.
_WRITER: Final = WriterProperties(
    compression="SNAPPY",
    column_properties=dict.fromkeys(("_id", "_timestamp", "_offset", "payload"), _PLAIN),
)


@dataclass(slots=True)
class Pending:
    """Rows of one table that wait for a commit."""

    table: LakeTable
    rows: list[pa.RecordBatch] = field(default_factory=list)
    partitions: set[Partition] = field(default_factory=set)
    size: int = 0

    def add(self, partition: Partition, rows: pa.RecordBatch) -> None:
        """Add rows of one partition, in offset order."""
        self.rows.append(rows)
        self.partitions.add(partition)
        self.size += rows.nbytes


def commit(order: LakeOrder, pending: Pending, ends: Mapping[Partition, int], report: TableReport) -> None:
    """Commit the rows and the `ends` of their partitions; add the result to `report`.

    Raise `InfrastructureError`: LAKE_TABLE_HALTED or LAKE_UNAVAILABLE.
    """
    rows = pa.Table.from_batches(pending.rows)
    try:
        for _ in range(_MAX_ATTEMPTS):
            if _attempt(order, pending.table, rows, ends, report):
                return
            report.refused += 1
    except InfrastructureError:
        raise
    except (DeltaError, TableNotFoundError, OSError, ValueError) as e:
        raise InfrastructureError(LAKE_UNAVAILABLE, f"table {pending.table.name}: {_reason(e)}") from None
    raise InfrastructureError(
        LAKE_UNAVAILABLE, f"table {pending.table.name}: {_MAX_ATTEMPTS} commits were refused in a row"
    )


def _attempt(
    order: LakeOrder,
    table: LakeTable,
    rows: pa.Table,
    ends: Mapping[Partition, int],
    report: TableReport,
) -> bool:
    """Return False if another commit came first."""
    handle = _opened(order, table)
    if handle is None:
        handle = _created(order, table)
        if handle is None:
            return False
    _require_own(order, table, handle)
    settled = _settled(order, table, handle, ends)
    left = _unsettled(order, rows, settled)
    if left.num_rows:
        whole, rescued = _with_columns(handle, table, left)
        positions = _positions(left, settled, ends)
        failpoints.reach("lake.before_commit")
        try:
            _write(handle, whole, positions)
        except CommitFailedError:
            return False
        failpoints.reach("lake.committed")
        report.rows += left.num_rows
        report.commits += 1
        report.rescued += rescued
        report.repeated += left.num_rows - pc.count_distinct(left.column("_id")).as_py()
        settled |= positions
    report.positions |= {key: position for key, position in settled.items() if position is not None}
    return True


def _opened(order: LakeOrder, table: LakeTable) -> DeltaTable | None:
    """Return the table, None if there is none; a damaged log halts it.

    A storage that fails is an `OSError`.
    """
    try:
        return open_table(order.storage, table.name)
    except DeltaError as e:
        raise _halted(table, f"its log is damaged: {_reason(e)}") from None


def _created(order: LakeOrder, table: LakeTable) -> DeltaTable | None:
    """Create the table; return None if another task was faster."""
    if any(key.table == table.name for key in order.positions):
        raise _halted(table, "its folder has no table, and rows had landed there: restore it")
    _require_empty_folder(order, table)
    columns = column_names((p.name for p in table.properties), base_schema(table.partitioning).names)
    kinds = {p.name: p.kind for p in table.properties}
    fields = typed_fields((column, kinds[name]) for name, column in columns.items())
    try:
        return DeltaTable.create(
            order.storage.table_url(table.name),
            pa.schema([*base_schema(table.partitioning), *fields]),
            partition_by=table.partitioning.columns,
            configuration={OWNER: order.owner, **_PROPERTIES},
            storage_options=order.storage.options(),
            raise_if_key_not_exists=False,
        )
    except CommitFailedError:
        return None
    except DeltaError as e:
        if "already exists" in str(e):
            return None
        raise


def _require_empty_folder(order: LakeOrder, table: LakeTable) -> None:
    """Halt a table whose folder has files of another program: vacuum would delete them."""
    if not order.storage.is_local:
        return
    folder = Path(order.storage.table_url(table.name))
    files = [each.name for each in folder.iterdir() if each.name != "_delta_log"] if folder.is_dir() else []
    if files:
        raise _halted(table, f"its folder has {len(files)} files of another program: move them away")


def _require_own(order: LakeOrder, table: LakeTable, handle: DeltaTable) -> None:
    owner = owner_of(handle)
    if owner is None:
        raise _halted(table, "another program has created it: name another table in the registry")
    if owner != order.owner:
        raise _halted(
            table,
            f"it belongs to the Onramp of Kafka cluster {owner}, and this is {order.owner}: two Onramps "
            "cannot write one table",
        )


def _settled(
    order: LakeOrder, table: LakeTable, handle: DeltaTable, ends: Mapping[Partition, int]
) -> dict[PositionKey, TablePosition | None]:
    """Return the table's positions in the partitions of `ends`; halt a table whose position went back."""
    settled: dict[PositionKey, TablePosition | None] = {}
    for partition in ends:
        key = key_of(order, table.name, partition)
        position = settled[key] = position_of(handle, key.topic_id, key.partition)
        before = order.positions.get(key)
        if before is not None and (position is None or position.next_offset < before.next_offset):
            has = "nothing" if position is None else f"the offsets below {position.next_offset}"
            raise _halted(
                table,
                f"it had the offsets of {partition} below {before.next_offset} and has {has}: restored?",
            )
    return settled


def key_of(order: LakeOrder, table: str, partition: Partition) -> PositionKey:
    """Return the key of a table's position in a partition of the order."""
    return PositionKey(table, partition.topic, order.ranges[partition].topic_id, partition.number)


def _unsettled(
    order: LakeOrder, rows: pa.Table, settled: Mapping[PositionKey, TablePosition | None]
) -> pa.Table:
    """Return the rows at or above the position and the start of their partition."""
    mask = None
    for key, position in settled.items():
        first = max(position.next_offset if position else 0, order.starts.get(key, 0))
        if first > order.ranges[Partition(key.topic, key.partition)].start:
            is_settled = pc.and_(
                pc.and_(
                    pc.equal(rows.column("_topic"), key.topic),
                    pc.equal(rows.column("_partition"), key.partition),
                ),
                pc.less(rows.column("_offset"), first),
            )
            mask = is_settled if mask is None else pc.or_(mask, is_settled)
    return rows if mask is None else rows.filter(pc.invert(mask))


def _positions(
    rows: pa.Table,
    settled: Mapping[PositionKey, TablePosition | None],
    ends: Mapping[Partition, int],
) -> dict[PositionKey, TablePosition]:
    """Return the positions after the rows, of the partitions that have any."""
    counts = rows.group_by(["_topic", "_partition"]).aggregate([([], "count_all")]).to_pylist()
    landed = {Partition(each["_topic"], each["_partition"]): each["count_all"] for each in counts}
    return {
        key: TablePosition(ends[p], (before.landed if before else 0) + landed[p])
        for key, before in settled.items()
        if (p := Partition(key.topic, key.partition)) in landed
    }


def _with_columns(handle: DeltaTable, table: LakeTable, rows: pa.Table) -> tuple[pa.Table, int]:
    """Return the rows with dates and typed columns, and the number of values that did not fit.

    An existing column keeps its type.
    """
    existing = pa.schema(handle.schema())
    partitioning = _partitioning_of(handle)
    for name, column in dates(rows.column("_timestamp"), partitioning, time.time()).items():
        rows = rows.append_column(name, column)
    columns = column_names((p.name for p in table.properties), existing.names)
    kinds: dict[str, Kind] = {}
    for each in table.properties:
        column = columns[each.name]
        kind = kind_of(existing.field(column).type) if column in existing.names else each.kind
        if kind is not None:
            kinds[each.name] = kind
    typed = typed_columns(rows.column("payload").combine_chunks(), kinds)
    for (name, kind), array in zip(kinds.items(), typed.columns, strict=True):
        (column_field,) = typed_fields([(columns[name], kind)])
        rows = rows.append_column(column_field, array)
    return rows, typed.rescued


def _partitioning_of(handle: DeltaTable) -> Partitioning:
    """Return the table's partitioning, which its creation has fixed."""
    columns = handle.metadata().partition_columns
    if not columns:
        return Partitioning.NONE
    return Partitioning.MONTH if columns == [MONTH] else Partitioning.DAY


def _write(handle: DeltaTable, rows: pa.Table, positions: Mapping[PositionKey, TablePosition]) -> None:
    transactions = [
        transaction
        for key, position in positions.items()
        for transaction in (
            Transaction(position_id(key.topic_id, key.partition), position.next_offset),
            Transaction(landed_id(key.topic_id, key.partition), position.landed),
        )
    ]
    write_deltalake(
        handle,
        rows,
        mode="append",
        schema_mode="merge",
        writer_properties=_WRITER,
        commit_properties=CommitProperties(app_transactions=transactions),
    )


def _halted(table: LakeTable, reason: str) -> InfrastructureError:
    return InfrastructureError(LAKE_TABLE_HALTED, f"table {table.name}: {reason}"[:_MAX_DETAIL])


def _reason(error: BaseException) -> str:
    """Return the text of an error as one line."""
    text = " ".join(_NOISE.sub("", str(error)).split())
    return text[:_MAX_DETAIL] or type(error).__name__
