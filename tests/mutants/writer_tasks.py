"""The protections of what a Spark worker does with its ranges: no Spark and no Kafka of their own."""

from typing import Final

from tests.mutants.machine import Mutant

TASK: Final = "tests/integration/writer/test_task.py"
LEDGER: Final = "tests/integration/writer/test_ledger.py"
PERSIST: Final = "tests/integration/writer/test_persist.py"
COPYING: Final = "tests/integration/writer/test_copy_first.py"
OUTBOX: Final = "tests/integration/writer/test_outbox.py"
POSTGRES: Final = "tests/integration/writer/test_postgres.py"
TABLES: Final = "tests/integration/writer_tables/test_tables.py"
VALUES: Final = "tests/integration/writer_tables/test_values.py"
SORTING: Final = "tests/unit/writer tests/unit/writer_sort"
SAME_LAYOUT: Final = "tests/unit/writer_sort/test_same_layout.py tests/unit/writer_sort/test_batch_checks.py"

_KEEP: Final = "            settlement.flush()\n"
_ADVANCE: Final = """\
            unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]
            ledger.advance(conn, unsettled, self._order.epoch, self._order.routes.digest)
"""
_BEFORE: Final = '            failpoints.reach("writer.before_commit")\n'
_AFTER: Final = '        failpoints.reach("writer.after_commit")\n'
_LAND: Final = _KEEP + _ADVANCE + _BEFORE + _AFTER
_AGAIN: Final = '        with transaction(database, "land") as conn:\n'
_ROWS: Final = "            for target, pieces in tables.items():\n"
#: Holds and blocked tables, and their Kafka-free tests.
HOLDS: Final = "tests/integration/writer/test_holds.py"

TASKS: Final = (
    Mutant(
        "delays of what landed alone",
        "model/commit_delays.py",
        "return times if mask.all() else times.filter(pa.array(mask))",
        "return times",
        f"{TASK}::test_only_events_that_the_table_took_were_committed_after_a_time",
    ),
    Mutant(
        "a row for a database that nobody knows raises",
        "settle/task.py",
        "        task.check_databases()\n",
        "",
        "tests/unit/writer/test_task.py",
    ),
    Mutant(
        "the ledger in the rows' transaction: it moves after",
        "settle/task.py",
        _LAND,
        _KEEP + _BEFORE + _AFTER + _AGAIN + _ADVANCE,
        TASK,
    ),
    Mutant(
        "the ledger in the rows' transaction: it moves before",
        "settle/task.py",
        _ROWS,
        _ADVANCE + "            conn.commit()\n" + _ROWS,
        TASK,
    ),
    Mutant(
        "totals and outbox in the rows' transaction",
        "settle/task.py",
        _LAND,
        _ADVANCE
        + _BEFORE
        + _AFTER
        + _AGAIN
        + "            settlement._context = SettlementContext(\n"
        + "                conn, database, topic_ids, work.records, work.pause_policy)\n"
        + _KEEP,
        TASK,
    ),
    Mutant(
        "the compare: a gap",
        "settle/ledger.py",
        "if next_offset is None or next_offset < r.start:",
        "if next_offset is None:",
        LEDGER,
    ),
    Mutant(
        "the compare: a missing row",
        "settle/ledger.py",
        "if next_offset is None or next_offset < r.start:",
        "if next_offset is not None and next_offset < r.start:",
        LEDGER,
    ),
    Mutant("the lock of the ledger row", "settle/ledger.py", "    FOR UPDATE OF l\n", "", LEDGER),
    Mutant("the topic's id", "settle/ledger.py", "ON l.topic_id = wanted.topic_id::uuid AND", "ON", LEDGER),
    Mutant(
        "the settled prefix",
        "settle/task.py",
        "[_since(rows, next_offsets[p]) for p, rows in at]",
        "[rows for _, rows in at]",
        TASK,
    ),
    Mutant(
        "never moving a ledger back",
        "settle/task.py",
        "unsettled = [r for r in ranges if next_offsets[r.partition] < r.end]",
        "unsettled = ranges",
        TASK,
    ),
    Mutant(
        "keeping the routes of before when they change",
        "settle/ledger.py",
        "AND l.digest = %(digest)s AND l.upto = l.next_offset",
        "AND l.upto = l.next_offset",
        LEDGER,
    ),
    Mutant(
        "knowing a ledger that was moved by hand",
        "settle/ledger.py",
        "AND l.digest = %(digest)s AND l.upto = l.next_offset",
        "AND l.digest = %(digest)s",
        LEDGER,
    ),
    Mutant(
        "keeping what was settled before a hand moved the ledger",
        "settle/ledger.py",
        "FROM begun WHERE since < least(upto, next_offset)",
        "FROM begun WHERE since < upto AND upto = next_offset",
        LEDGER,
    ),
    Mutant(
        "keeping no more than is settled yet of a ledger that went back",
        "settle/ledger.py",
        "SELECT topic_id, topic, partition, since, least(upto, next_offset), digest",
        "SELECT topic_id, topic, partition, since, upto, digest",
        LEDGER,
    ),
    Mutant(
        "that a range which is passed over is not settled",
        "settle/ledger.py",
        '    _move(conn, _SKIP, rows, {"epoch": epoch})',
        '    _move(conn, _ADVANCE, rows, {"epoch": epoch, "digest": "one"})',
        LEDGER,
    ),
    Mutant("the epoch's fence", "settle/ledger.py", "if claimed > epoch:", "if False:", f"{LEDGER} {TASK}"),
    Mutant(
        "the epoch's claim",
        "settle/ledger.py",
        "greatest(ledger.epoch, excluded.epoch)",
        "ledger.epoch",
        f"{LEDGER} {TASK}",
    ),
    Mutant(
        "the claim that never takes back",
        "settle/ledger.py",
        "greatest(ledger.epoch, excluded.epoch)",
        "excluded.epoch",
        LEDGER,
    ),
    Mutant(
        "ON CONFLICT's target",
        "persist/insert_spec.py",
        'sql.SQL("ON CONFLICT ({}) DO NOTHING")',
        'sql.SQL("ON CONFLICT DO NOTHING /* {} */")',
        f"{PERSIST} {TABLES}",
    ),
    Mutant(
        "the outbox in the rows' transaction",
        "park/outbox.py",
        "        cursor.execute(_ADD, row)\n",
        "        cursor.execute(_ADD, row)\n    conn.commit()\n",
        TASK,
    ),
    Mutant(
        "removing from the outbox after the topic has it",
        "park/outbox.py",
        "        rows = cursor.fetchall()\n",
        "        rows = cursor.fetchall()\n"
        "        cursor.execute(_REMOVE, ([row[0] for row in rows],))\n        conn.commit()\n",
        OUTBOX,
    ),
    Mutant(
        "parking the unroutable before their offset settles",
        "settle/task.py",
        "        task.park_unroutable()\n",
        "",
        OUTBOX,
    ),
    Mutant(
        "counting what COPY took",
        "persist/copy.py",
        "require_all(complete=copy() == rows)",
        "require_all(complete=copy() >= 0)",
        PERSIST,
    ),
    Mutant(
        "what COPY refused goes the other way: it is taken for landed",
        "persist/copy_new_rows.py",
        "return new if sqlstate is None else np.zeros(rows.num_rows, dtype=bool)",
        "return new",
        f"{COPYING} {PERSIST}",
    ),
    Mutant(
        "what the table has is left out of COPY, and judged: it is taken for a repeat",
        "persist/copy_new_rows.py",
        "    left = np.flatnonzero(~out.landed)\n    if left.size:\n",
        "    left = np.flatnonzero(~out.landed)\n    if left.size == rows.num_rows:\n",
        f"{COPYING} {PERSIST} {TABLES}",
    ),
    Mutant(
        "a question about keys is no error of the rows",
        "persist/copy_new_rows.py",
        "        if verdict(e.pgcode) is not Verdict.PARK:\n            raise\n    return new",
        "        raise\n    return new",
        f"{COPYING} {PERSIST} {TABLES}",
    ),
    Mutant(
        "looking at the landing table's key again before anybody is parked",
        "persist/persist.py",
        "if described() != spec:",
        "if False:",
        PERSIST,
    ),
    Mutant(
        "counting what INSERT took",
        "persist/insert.py",
        "require_all(complete=cursor.rowcount == count)",
        "pass",
        f"{PERSIST} {TABLES}",
    ),
    Mutant(
        "looking for the missing among duplicates",
        "persist/insert.py",
        "None not in row_indices and cursor.fetchone() == (False,)",
        "None not in row_indices",
        TABLES,
    ),
    Mutant(
        "counting a piece while isolating",
        "persist/isolate_rows.py",
        "IF onramp_got <> (SELECT count(*) FROM {stage} s {in_piece}) THEN",
        "IF false THEN",
        f"{PERSIST} {TABLES}",
    ),
    Mutant(
        "counting a row while isolating",
        "persist/isolate_rows.py",
        "                    IF onramp_got = 0 THEN\n",
        "                    IF false THEN\n",
        f"{PERSIST} {TABLES}",
    ),
    Mutant(
        "telling an outage from bad rows while isolating",
        "persist/isolate_rows.py",
        "of_the_rows=_OF_THE_ROWS",
        'of_the_rows=sql.SQL("true")',
        f"{PERSIST} {TABLES}",
    ),
    Mutant(
        "counting duplicates",
        "settle/settlement.py",
        "        self._count_outcome(target, Outcome.DUPLICATE, result.duplicates())\n",
        "",
        f"{TASK} {PERSIST}",
    ),
    Mutant(
        "deferred constraints checked at once",
        "persist/persist.py",
        'cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")',
        'cursor.execute("SELECT 1")',
        f"{PERSIST} {TABLES}",
    ),
    Mutant(
        "the same id with another body",
        "persist/persist.py",
        "    if duplicates:\n",
        "    if False:\n",
        TABLES,
    ),
    Mutant(
        "the text that Postgres cannot hold",
        "persist/insert.py",
        "    rows = _without_nul(database, spec, rows, out)\n",
        "",
        f"{PERSIST} {VALUES}",
    ),
    Mutant(
        "asking the catalogue again before anybody is parked",
        "persist/typed_table.py",
        "    if errors or (",
        "    if (",
        TABLES,
    ),
    Mutant("a key that is never null", "persist/typed_rows.py", "values.null_count:", "False:", TABLES),
    Mutant("the frozen contract", "persist/typed_rows.py", "if self.unknown() and", "if False and", TABLES),
    Mutant(
        "the deferrable key's refusal", "persist/typed_table.py", "if not key.immediate:", "if False:", TABLES
    ),
    Mutant("the pinned search_path", "postgres/database.py", '"pg_catalog,pg_temp"', '"public"', POSTGRES),
    Mutant(
        "rolling back what failed",
        "postgres/pool.py",
        "        except BaseException:\n            _roll_back(conn)\n",
        "        except BaseException:\n            conn.commit()\n",
        f"{POSTGRES} {TASK}",
    ),
    Mutant(
        "an outage's report",
        "settle/task.py",
        """\
            except InfrastructureError as e:
                self._fail(database, e.fault.code, e.detail)
                return
            except UserError""",
        """\
            except InfrastructureError:
                return
            except UserError""",
        TASK,
    ),
    Mutant(
        "the unknown waits",
        "postgres/sqlstates.py",
        "        return Verdict.PARK\n    return Verdict.WAIT\n",
        "        return Verdict.PARK\n    return Verdict.PARK\n",
        SORTING,
    ),
    Mutant(
        "the filter",
        "model/records.py",
        "return bool(orjson.loads(context) == wire.CONTEXT)",
        "return True",
        SORTING,
    ),
    Mutant(
        "records without a context among many with one",
        "model/records.py",
        ", skip_nulls=False).as_py():",
        ").as_py():",
        "tests/unit/writer/test_arrivals.py",
    ),
    Mutant(
        "grants of packets", "sort/packets.py", "if not routing.allows(topic, target):", "if False:", SORTING
    ),
    Mutant(
        "schemas that are never writable",
        "sort/packets.py",
        "if is_closed(destination.schema):",
        "if False:",
        SORTING,
    ),
    Mutant(
        "schemas that a database opens",
        "sort/packets.py",
        "or destination.schema not in configured.schemas:",
        "or False:",
        SORTING,
    ),
    Mutant(
        "every byte of a template",
        "parse/same_layout.py",
        "matches &= pieces.equal(2 * i, gap)",
        "pieces.equal(2 * i, gap)",
        SAME_LAYOUT,
    ),
    Mutant(
        "no escape among the texts of a template",
        "parse/same_layout.py",
        "matches_patterns(*columns, version=PLAIN_VERSION)",
        "matches_patterns(*columns)",
        SAME_LAYOUT,
    ),
    Mutant(
        "strict bodies",
        "parse/same_layout.py",
        "matches[matches] = json_checks.strict_objects(_only(bodies, matches))",
        "json_checks.strict_objects(_only(bodies, matches))",
        SAME_LAYOUT,
    ),
    Mutant(
        "a template is taken from an event",
        "parse/parse.py",
        "value is None or isinstance(parsed, UserError)",
        "value is None",
        SAME_LAYOUT,
    ),
    Mutant("whole names", "sort/packets.py", "or len(name.encode()) > _LONGEST_NAME_BYTES", "", SORTING),
)
