"""The audit of the lake: rows by receipt, positions of the tables, and Kafka's records, table by table.

The group's offsets are read first, then the tables, then Kafka: events below the offsets have landed before.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.ops.audit.classify import classify
from services.ops.audit.lake_checks import ReceiptCheck, check_files, check_totals, lines_of
from services.ops.findings import Report, Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.lake.delta_facts import ERRORS, table_names
from services.ops.lake.delta_receipts import TableReceipts, read_receipts
from services.ops.lake.lake_positions import LakePositions
from shared import wire
from shared.lake.delta_log import open_table, owner_of
from shared.lake.lake_topic import PositionKey
from shared.lake.storage import Storage, reason_of
from shared.registry.entries import Snapshot


@dataclass(frozen=True, slots=True)
class Lake:
    """The lake to audit, and the registry, which says which events are for which table."""

    storage: Storage
    registry: Snapshot

    def is_for(self, event_name: str, table: str) -> bool:
        """Return whether events with this name land in the table."""
        named = self.registry.lake_table_of(event_name)
        if named is None and event_name == table:  # a table that ONRAMP_LAKE_ALL has created
            return all(self.registry.lake_table_of(other) != table for other in self.registry.event_types)
        return named == table


@dataclass(frozen=True, slots=True)
class _Positions:
    """The content of `onramp.lake`, and the group's offsets by source with their topic's id."""

    keys: Sequence[PositionKey]
    starts: Mapping[PositionKey, int]
    group: Mapping[Source, tuple[int, str]]
    topic_ids: Mapping[str, str]


async def audit_lake(lake: Lake, logs: KafkaLogs, topics: re.Pattern[str], report: Report) -> None:
    """Check each table and add the result to `report`; with receipts if the report is deep.

    Raises `InfrastructureError` if the storage cannot be listed. A table that cannot be read is unchecked.
    """
    positions = await _positions(logs)
    tables: list[TableReceipts] = []
    for name in await asyncio.to_thread(table_names, lake.storage):
        try:
            receipts = await asyncio.to_thread(_read, lake.storage, name, positions)
        except ERRORS as error:
            report.unreadable.append(f"lake.{name}")
            report.unchecked.append(f"lake.{name} cannot be read: {reason_of(error)}")
            continue
        if receipts is not None:
            tables.append(receipts)
    for receipts in tables:
        lines = [line for line in lines_of(receipts) if topics.fullmatch(line.topic)]
        report.lake += lines
        report.findings += check_files(receipts, [line.topic for line in lines])
        for line in lines:
            report.findings += check_totals(receipts, line)
    if report.deep:
        await _ReceiptAudit(lake, logs, positions, topics).run(tables, report)


def _read(storage: Storage, name: str, positions: _Positions) -> TableReceipts | None:
    table = open_table(storage, name)
    if table is None or owner_of(table) is None:
        return None  # a table of another program
    return read_receipts(name, table, positions.keys, positions.topic_ids)


async def _positions(logs: KafkaLogs) -> _Positions:
    group = await logs.offsets_of_group(wire.LAKE_GROUP)
    lake = LakePositions()
    async for record in logs.whole(wire.LAKE):
        lake.add(record.key, record.value)
    return _Positions([*lake.positions, *lake.starts], lake.starts, group, await logs.topic_ids())


@dataclass(frozen=True, slots=True)
class _ReceiptAudit:
    """Compares tables with Kafka's records by receipt: each partition is read once, for all its tables."""

    lake: Lake
    logs: KafkaLogs
    positions: _Positions
    topics: re.Pattern[str]

    async def run(self, tables: Sequence[TableReceipts], report: Report) -> None:
        """Check all tables, and add violations to the report."""
        positions, by_source = (
            self.positions,
            defaultdict[Source, list[tuple[TableReceipts, PositionKey]]](list),
        )
        for receipts in tables:
            own = {key for key in positions.starts if key.table == receipts.table} | receipts.positions.keys()
            for key in own:
                if positions.topic_ids.get(key.topic) == key.topic_id and self.topics.fullmatch(key.topic):
                    by_source[Source(key.topic, key.partition)].append((receipts, key))
        spans = await self.logs.spans({source.topic for source in by_source})
        for source, checked in sorted(by_source.items()):
            if source not in spans:
                text = f"{source}: no broker leads it, so rows of the lake are not compared"
                report.unchecked.append(text)
                continue
            checks = [self._check(receipts, key, spans[source][0]) for receipts, key in checked]
            async for record in self.logs.read({source: spans[source]}):
                event = classify(record, source.topic)
                for check in checks:
                    check.check(event)
            report.findings += [finding for check in checks for finding in check.finish()]

    def _check(self, receipts: TableReceipts, key: PositionKey, first: int) -> ReceiptCheck:
        position = receipts.positions.get(key)
        upto = position.next_offset if position else 0
        committed, topic_id = self.positions.group.get(Source(key.topic, key.partition), (0, ""))
        if key in self.positions.starts and topic_id == key.topic_id:
            upto = max(upto, committed)
        return ReceiptCheck(
            receipts,
            key,
            first=first,
            start=self.positions.starts.get(key, 0),
            upto=upto,
            is_for_table=lambda name: self.lake.is_for(name, receipts.table),
        )
