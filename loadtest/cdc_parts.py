"""The parts of the bench of sources: each creates tables, and ends when public ones equal the source."""

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from loadtest import cdc_watch
from loadtest.background import repeatedly
from loadtest.cdc_stack import AWAY, LARGE, SOURCES, STEADY, CdcStack
from loadtest.processes import cost
from services.cdc.agent import names
from services.cdc.agent.source_sql import SourceDatabase
from shared import change_table
from shared.registry.sources import Source

#: As the agent does by default.
_POLL_SECONDS: Final = 1.0
#: Changes of a transaction of the backlog.
_AT_ONCE: Final = 1_000
_LANDED: Final = """
    SELECT coalesce(sum(l.next_offset), 0)::int8 FROM onramp.ledger l WHERE l.topic = ANY (%s)
"""
_ROWS: Final = """
    INSERT INTO app.{table} (id, n, note, amount)
    SELECT i, i, 'a note about this row, which is as long as notes usually are, no. ' || i,
           i / 100.0
    FROM generate_series({first}, {last}) i
"""


def latency_1(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """From a commit to its public row, one table."""
    return _latency(on, args, 1)


def latency_20(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """From a commit to its public row, twenty tables."""
    return _latency(on, args, 20)


def _latency(on: CdcStack, args: argparse.Namespace, count: int) -> dict[str, Any]:
    tables = on.make_tables(STEADY, [f"latency_{n}" for n in range(count)])
    found = cdc_watch.load(on, STEADY, tables, rate=args.rate, seconds=args.seconds)
    return found | on.verify(STEADY, tables)


def transaction(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """One transaction of many rows, from its commit until all rows are public."""
    table = on.make_table(STEADY, "transaction")
    before = on.merged(STEADY)
    committed = on.execute(on.source(STEADY), _ROWS.format(table=table, first=1, last=args.transaction))
    public = on.until(lambda: on.merged(STEADY) >= before + args.transaction, "all rows are public")
    found = {"rows": args.transaction, "public_after_s": round(public - committed, 2)}
    return found | on.verify(STEADY, [table])


def backlog(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """Changes that wait on Kafka, landed and merged at full speed: inserts, and updates of a quarter."""
    tables = on.make_tables(STEADY, [f"backlog_{n}" for n in range(args.backlog_tables)])
    topics = [names.topic(STEADY, "app", table) for table in tables]
    begins = _ends(on, topics)
    on.child("merger").stop()
    on.writer.stop()
    merged_before, landed_before = on.merged(STEADY), on.ask(_LANDED, topics)[0][0]
    began = time.monotonic()
    changes = _write_backlog(on, tables, args.backlog)
    captured = on.until(
        lambda: _ends(on, topics) >= begins + changes, "Kafka has the backlog", is_whole=False
    )
    started = time.monotonic()
    on.writer.start()
    on.child("merger").start()
    line: list[tuple[float, int]] = []  # when how much had landed
    done = merged_before + changes

    def is_done() -> bool:
        landed = on.ask(_LANDED, topics)[0][0] - landed_before
        if landed and (not line or line[-1][1] < landed):
            line.append((time.monotonic(), landed))
        return on.merged(STEADY) >= done

    public = on.until(is_done, "the backlog is public")
    (first_at, first), (last_at, last) = line[0], line[-1]
    return {
        "changes": changes,
        "tables": len(tables),
        "captured_per_s": round(changes / (captured - began)),
        "landed_per_s": round((last - first) / (last_at - first_at)) if last_at > first_at else None,
        "landed_and_merged_per_s": round((changes - first) / (public - first_at)),
        "with_the_start_s": round(public - started, 1),
        **on.verify(STEADY, tables),
    }


def snapshot(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """A new source with a large table that is written to meanwhile, until all rows are public."""
    on.make_source(LARGE)
    table = "snapshot"
    create = f"CREATE TABLE app.{table} (id bigint PRIMARY KEY, n int, note text, amount numeric(14, 2))"
    on.execute(on.source(LARGE), create, _ROWS.format(table=table, first=1, last=args.snapshot))
    written: list[int] = []

    def write() -> None:
        n = len(written)
        insert = _ROWS.format(table=table, first=args.snapshot + n + 1, last=args.snapshot + n + 1)
        on.execute(on.source(LARGE), insert, f"UPDATE app.{table} SET n = -n WHERE id = {n + 1}")  # noqa: S608
        written.append(n)

    began = time.monotonic()
    on.register((*SOURCES, LARGE))
    with repeatedly(0.02, write):
        public = on.until(lambda: on.merged(LARGE) >= args.snapshot, "the snapshot is public", 0.2)
        count = len(written)
    same = on.verify(LARGE, [table])
    on.register(SOURCES)
    gone = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    on.until(lambda: on.ask(gone, names.slot(LARGE)) == [(0,)], "the source is removed")
    found = {
        "rows": args.snapshot,
        "transactions_meanwhile": 2 * count,
        "public_after_s": round(public - began, 1),
    }
    return found | same


def connect(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """Kafka Connect with three sources: seconds until it answers, until all stream, and its memory."""
    tables = {source: on.make_table(source, "connect") for source in SOURCES}
    child = on.child("connect")
    child.stop()
    for source, table in tables.items():
        on.execute(on.source(source), f"INSERT INTO app.{table} (id) VALUES (1)")  # noqa: S608
    began = time.monotonic()
    child.start()
    on.capture.wait_ready()
    ready = time.monotonic()
    flow = max(on.until(partial(on.is_public, s, t, 1), f"{s} flows") for s, t in tables.items())
    time.sleep(args.settle)
    return {
        "sources": len(SOURCES),
        "ready_after_s": round(ready - began, 1),
        "all_flow_after_s": round(flow - began, 1),
        "pss_mb": round(sum(cost(child.pid).pss.values())),
        **_together(on, tables),
    }


def crash(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """A source's server is killed and started: from its first answer until a new row is public."""
    table, seconds = on.make_table(AWAY, "crash"), list[float]()
    for n in range(1, args.crashes + 1):
        on.away.kill()
        on.away.start()
        on.away.wait_ready()
        committed = on.execute(on.source(AWAY), f"INSERT INTO app.{table} (id) VALUES ({n})")  # noqa: S608
        public = on.until(partial(on.is_public, AWAY, table, n), "the row is public")
        seconds.append(round(public - committed, 2))
    return {"crashes": args.crashes, "flows_after_s": [min(seconds), max(seconds)]} | on.verify(AWAY, [table])


def dead(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """Two sources, one with a stopped server: delay of the other one's commits, compared with before."""
    tables = {source: on.make_table(source, "dead") for source in (STEADY, AWAY)}
    found: dict[str, Any] = {"rate": args.rate}
    for n, name in enumerate(("before", "meanwhile")):
        first = 1 + n * int(args.rate * args.seconds)
        of_one = cdc_watch.load(
            on, STEADY, [tables[STEADY]], rate=args.rate, seconds=args.seconds, first=first
        )
        found[f"{name}_commit_to_row_ms"] = of_one["commit_to_row_ms"]
        if name == "before":
            on.away.kill()
    on.away.start()
    on.away.wait_ready()
    on.execute(on.source(AWAY), f"INSERT INTO app.{tables[AWAY]} (id) VALUES (1)")  # noqa: S608
    return found | _together(on, tables)


def source(on: CdcStack, args: argparse.Namespace) -> dict[str, Any]:
    """Measure the agent's cost at a source's server without schema changes, by the number of tables."""
    shares = {f"percent_of_a_core_{n}_tables": _share_of_a_core(on, n, args.polls) for n in args.table_counts}
    return {"polls": args.polls, **shares}


def _share_of_a_core(on: CdcStack, tables: int, polls: int) -> float:
    """Return the CPU seconds of the agent's session in percent of the seconds in which it polled."""
    name = f"polled_{tables}"
    on.home.create_database(name)
    dsn = on.home.dsn_of(name)
    columns = ", ".join(f"c{n} text" for n in range(9))
    made = (f"CREATE TABLE app.t{n} (id int PRIMARY KEY, {columns})" for n in range(tables))
    on.execute(dsn, "CREATE SCHEMA app", *made, "ANALYZE")
    database = SourceDatabase(
        name, Source(dsn_env="ONRAMP_SOURCE_POLLED", schemas=("app",), publish=name), dsn
    )
    with closing(database):
        database.inspect()
        session = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND application_name = 'onramp-agent'"
        on_cpu = Path(f"/proc/{on.ask(session, name)[0][0]}/schedstat")
        began, before = time.monotonic(), int(on_cpu.read_text().split()[0])
        for look in range(1, polls + 1):
            database.inspect()
            time.sleep(max(0.0, began + look * _POLL_SECONDS - time.monotonic()))
        spent = (int(on_cpu.read_text().split()[0]) - before) / 1e9
        return round(100 * spent / (time.monotonic() - began), 2)


Part = Callable[[CdcStack, argparse.Namespace], dict[str, Any]]
PARTS: Final[dict[str, Part]] = {
    "latency-1": latency_1,
    "latency-20": latency_20,
    "transaction": transaction,
    "backlog": backlog,
    "snapshot": snapshot,
    "connect": connect,
    "crash": crash,
    "dead": dead,
    "source": source,
}


def _together(on: CdcStack, tables: dict[str, str]) -> dict[str, int]:
    rows = sum(on.verify(source, [table])["rows_compared"] for source, table in tables.items())
    return {"rows_compared": rows, "rows_that_differ": 0}


def _write_backlog(on: CdcStack, tables: list[str], changes: int) -> int:
    """Write about `changes` changes; return their number."""
    statements, written = [], 0
    for n in range(changes // _AT_ONCE):
        turn, place = divmod(n, len(tables))
        table, inserts = tables[place], turn - turn // 4
        if turn % 4 == 3:  # noqa: PLR2004 - a quarter
            where = f"id > {(inserts - 1) * _AT_ONCE} AND id <= {inserts * _AT_ONCE}"
            statements.append(f"UPDATE app.{table} SET n = n + 1 WHERE {where}")  # noqa: S608
        else:
            first = inserts * _AT_ONCE + 1
            statements.append(_ROWS.format(table=table, first=first, last=first + _AT_ONCE - 1))
        written += _AT_ONCE
    on.execute(on.source(STEADY), *statements)
    return written


def _ends(on: CdcStack, topics: list[str]) -> int:
    """Return the number of records of these topics together."""
    consumer = Consumer({"bootstrap.servers": on.kafka.bootstrap, "group.id": change_table.SCHEMA})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1] for topic in topics)
    finally:
        consumer.close()
