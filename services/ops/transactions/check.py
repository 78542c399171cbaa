"""Checks that all changes of a source's transactions have landed, by the counts of Debezium's END records.

The totals prove that the changes on a topic have landed; this check proves that all of them were sent.
"""

from collections.abc import Mapping
from typing import Final

from services.ops.findings import Code, Finding, Generation, Report, Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.totals_sql import Snapshot
from services.ops.transactions import transactions_sql
from services.ops.transactions.transactions_sql import Lacking, SourceTable
from shared import change_table, wire

#: Maximum transactions of one table that are listed.
_MAX: Final = 1000
#: Outcomes of changes that have not landed yet.
_OUTSTANDING: Final = {"parked": 1, "replayed": -1, "replayed_duplicate": -1}


async def check_transactions(
    logs: KafkaLogs, snapshots: Mapping[str, Snapshot], report: Report, *, deep: bool | None, limit: int
) -> None:
    """Add missing changes to `report`; `deep` None: only for up to about `limit` landed changes."""
    for name, snapshot in snapshots.items():
        tables = transactions_sql.tables(snapshot.conn)
        if not tables:
            continue
        if transactions_sql.rows(snapshot.conn) > limit if deep is None else not deep:
            report.unchecked.append(
                f"{name}: changes of sources were not counted by transaction: --deep counts them"
            )
            continue
        await _Database(logs, snapshot, report).check(tables)


class _Database:
    """Checks one database."""

    def __init__(self, logs: KafkaLogs, snapshot: Snapshot, report: Report) -> None:
        self._logs = logs
        self._snapshot = snapshot
        self._report = report
        self._feeds = transactions_sql.fed_by(snapshot.totals)

    async def check(self, tables: list[SourceTable]) -> None:
        lacking = {t: transactions_sql.lacking(self._snapshot.conn, t, _MAX) for t in tables}
        lacking = {table: found for table, found in lacking.items() if found}
        if not lacking:
            return
        confirmed = transactions_sql.confirmed(self._snapshot.conn)
        # Read after the database, so that its ledger cannot be ahead of these offsets.
        spans = await self._logs.spans(
            t for t in await self._logs.topics() if t.startswith(wire.CHANGE_TOPIC_PREFIX)
        )
        for table, found in lacking.items():
            is_settled = self._is_settled(table, spans)
            upto = confirmed.get(table.source, 0) if is_settled else 0
            self._judge(table, [e for e in found if e.is_passed or e.lsn <= upto])
            if on_their_way := [e for e in found if not e.is_passed and e.lsn > upto]:
                self._report.unchecked.append(
                    f"{len(on_their_way)} transactions of {table.source} have changes of {table.collection} "
                    "that are still on their way"
                )

    def _is_settled(self, table: SourceTable, spans: Mapping[Source, tuple[int, int]]) -> bool:
        """Return whether all of the table's records on Kafka have landed."""
        newest: dict[Source, int] = {}
        for generation, next_offset in self._snapshot.ledger.items():
            newest[generation.source] = max(next_offset, newest.get(generation.source, 0))
        fed: set[Generation] = self._feeds.get(table.landing, set())
        topics = {generation.source.topic for generation in fed}
        prefix = f"{wire.CHANGE_TOPIC_PREFIX}{table.source}-"
        return all(
            first == end or newest.get(source, 0) >= end
            for source, (first, end) in spans.items()
            if (source.topic in topics if topics else _may_feed(source.topic, prefix))
        )

    def _judge(self, table: SourceTable, found: list[Lacking]) -> None:
        n, elsewhere = sum(e.announced - e.landed for e in found), self._outstanding(table)
        if n > elsewhere:
            source = transactions_sql.topic_of(table, self._feeds)
            self._report.findings += [_finding(table, source, each) for each in found]
        elif found:
            self._report.unchecked.append(
                f"{n} changes of {table.collection} of {table.source} are parked or wait, and have not landed"
            )

    def _outstanding(self, table: SourceTable) -> int:
        destination = f"{change_table.SCHEMA}.{table.landing}"
        parked = sum(
            n * _OUTSTANDING.get(outcome, 0)
            for (_, to, outcome), n in self._snapshot.totals.items()
            if to == destination
        )
        return parked + sum(row.destination == destination for row in self._snapshot.waiting)


def _may_feed(topic: str, prefix: str) -> bool:
    return topic.startswith(prefix) and topic != f"{prefix}signal"


def _finding(table: SourceTable, source: Source, lacking: Lacking) -> Finding:
    commit = f"{lacking.lsn >> 32:X}/{lacking.lsn & 0xFFFFFFFF:X}"
    return Finding(
        Code.LOST,
        source,
        None,
        f"transaction {lacking.xid} of {table.source}, committed at {commit}, made "
        f"{lacking.announced} changes of {table.collection}, and {lacking.landed} of them have landed",
        f"onramp sources resync {table.source}",
    )
