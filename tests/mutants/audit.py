"""`python -m tests.mutants.audit`: what keeps the audit from calling balanced what is not, and its tests."""

from typing import Final

from tests.mutants.admin_bounds import BOUNDS
from tests.mutants.keeper import KEEPER
from tests.mutants.machine import Mutant, run
from tests.mutants.operators import OPERATORS
from tests.mutants.refused import REFUSED_ADMIN
from tests.mutants.registry_api import REGISTRY_API

UNIT: Final = "tests/unit/admin"
STAGE: Final = "tests/integration/admin/test_settled_under.py"
BOOKS: Final = "tests/integration/admin/test_audit.py"
UNREADABLE: Final = (
    f"{BOOKS}::test_a_table_that_its_role_may_not_read_is_named_and_its_events_are_not_taken_for_lost"
)
#: A destination that silently never landed, before and after a change of routes, under a whole writer.
ROUTES: Final = "tests/faults/test_routes_of_the_time.py"
#: Events for several tables of a database that is out, under a whole writer.
WAITING: Final = "tests/faults/test_audit_of_what_waits.py"
#: Two incarnations of one log, and two topics of one name.
INCARNATIONS: Final = "tests/integration/admin/test_incarnations.py"
#: A writer that goes on while the books are read.
WRITER: Final = "tests/integration/admin/test_concurrent_writer.py"
#: Events that Kafka deleted before they were settled, under a whole writer.
DELETED: Final = "tests/faults/test_audit_of_lives.py"
#: Parked events that landed later, under a whole writer.
REPLAYS: Final = "tests/faults/test_f42_replays.py::test_f42_"
#: What `onramp admin` keeps, and replays that a restored dump has lost.
KEPT: Final = "tests/integration/admin/test_audit_of_kept.py::test_"
#: Kept, grouped, fixed, replayed and discarded through kills and a restored dump, under a whole writer.
LOST: Final = "tests/faults/test_lost_replays.py::test_"
STORY: Final = "tests/faults/test_nothing_forgotten.py"
#: What transactions of sources said of themselves, beside what landed, and what the audit makes of it.
ENDS: Final = "tests/integration/elt/test_ends.py"
OF_ENDS: Final = "tests/integration/elt/test_audit_of_ends.py"
_PLANTED: Final = "what_is_planted_in_the_control_database_is_named"
#: Tables made of an event type's schema.
CREATED: Final = "tests/integration/admin/test_audit_of_created.py::test_"
DESTINATIONS: Final = "tests/integration/writer_tables/test_destinations.py"

QUICK: Final = (
    *(
        Mutant(
            f"many topics: {what}", file, old, new, f"tests/integration/admin/test_many_topics.py::test_{t}"
        )
        for what, file, old, new, t in (
            (
                "their first and last offsets are known in time",
                "kafka_logs.py",
                "<= _FEW:",
                "<= 10 * len(partitions):",
                "where_many_topics_begin_and_end",
            ),
            (
                "so are those of a moment",
                "kafka_logs.py",
                "found = await consumer.offsets_for_times(asked)",
                "found = await self._consumer.offsets_for_times(asked)",
                "where_many_topics_begin_and_end",
            ),
        )
    ),
    Mutant(
        "END records: what went with a topic that is no more",
        "transactions/transactions_sql.py",
        "trimmed_to IS NOT NULL OR past_topics <> '{}'",
        "trimmed_to IS NOT NULL",
        "tests/integration/elt/test_audit_of_ends.py"
        "::test_what_went_with_a_topic_that_is_no_more_is_not_lost",
    ),
    *(
        Mutant(f"END records: {what}", file, old, new, f"{ENDS}::test_{test}")
        for what, file, old, new, test in (
            (
                "repeats count once",
                "transactions/transactions_sql.py",
                "count(DISTINCT (change #>> '{{transaction,total_order}}')::int8)",
                "count(*)",
                "what_was_sent_again_counts_once_and_ends_too",
            ),
            (
                "what a snapshot has",
                "transactions/transactions_sql.py",
                "greatest(edges.snapshot, edges.trimmed, 0)",
                "greatest(edges.trimmed, 0)",
                "what_a_snapshot_has_is_not_missed",
            ),
            (
                "what was trimmed",
                "transactions/transactions_sql.py",
                "greatest(edges.snapshot, edges.trimmed, 0)",
                "greatest(edges.snapshot, 0)",
                "what_was_trimmed_is_not_missed",
            ),
            (
                "what is on its way",
                "transactions/transactions_sql.py",
                "t.lsn <= edges.passed",
                "true",
                "a_change_that_did_not_land_is_missed_by_its_transaction",
            ),
        )
    ),
    *(
        Mutant(f"END records: {what}", "transactions/check.py", old, new, f"{OF_ENDS}::test_{test}")
        for what, old, new, test in (
            (
                "what is parked is not lost",
                "if n > elsewhere:",
                "if n > 0:",
                "a_change_that_is_parked_is_not_lost_until_it_is_said_to_have_landed",
            ),
            (
                "what is said to have landed later",
                '"replayed": -1, ',
                "",
                "a_change_that_is_parked_is_not_lost_until_it_is_said_to_have_landed",
            ),
            (
                "beside what is parked",
                "if n > elsewhere:",
                "if n and not elsewhere:",
                "beside_what_is_parked_one_that_is_lost_is_a_finding",
            ),
            (
                "what waits is not lost",
                "return parked + sum(row.destination == destination for row in self._snapshot.waiting)",
                "return parked",
                "changes_that_wait_in_the_database_are_not_lost",
            ),
            (
                "what lands next",
                "newest.get(source, 0) >= end",
                "True",
                "a_change_is_lost_when_kafka_had_it_and_all_that_kafka_has_has_landed",
            ),
            (
                "what Kafka was seen to have",
                "e.is_passed or e.lsn <= upto]",
                "e.is_passed]",
                "a_change_is_lost_when_kafka_had_it_and_all_that_kafka_has_has_landed",
            ),
        )
    ),
    Mutant(
        "that a table which may not be read is told",
        "audit/checks.py",
        "for table in sorted(database.unreadable):",
        "for table in ():",
        UNREADABLE,
    ),
    Mutant(
        "that what is in a table which may not be read is not lost",
        "audit/receipts.py",
        "routed.table not in of.unreadable",
        "True",
        UNREADABLE,
    ),
    Mutant(
        "the right to the schema of a table",
        "books_sql.py",
        "has_schema_privilege(n.oid, 'USAGE') AND ",
        "",
        UNREADABLE,
    ),
    Mutant(
        "a second key that refuses rows",
        "books_sql.py",
        "SELECT bool_and(",
        "SELECT bool_or(",
        f"{CREATED}a_table_with_a_key_beside_the_id_is_checked_by_count",
    ),
    Mutant(
        "leaving out a partition that nobody leads: all others would wait for it",
        "kafka_logs.py",
        "for source in asked.keys() - without]",
        "for source in asked]",
        UNIT,
    ),
    Mutant(
        "judging nothing without a part of Onramp's own notes",
        "audit/leaderless.py",
        "return not any(source.topic in own for source in books.leaderless)",
        "return True",
        UNIT,
    ),
    Mutant(
        "books without a partition that nobody leads are never balanced",
        "findings.py",
        "self.in_motion or self.leaderless",
        "self.in_motion",
        UNIT,
    ),
    Mutant(
        "what a batch has not brought to a database yet: it is not lost there",
        "audit/concurrent_writer.py",
        "return range(first, books.next_offset(incarnation))",
        "return range(0)",
        WRITER,
    ),
    Mutant(
        "where the group stood before the databases were read",
        "audit/run.py",
        "books.committed = committed",
        "books.committed = books.group",
        WRITER,
    ),
    Mutant(
        "sums of several moments are no proof, whatever they come to",
        "audit/balance.py",
        "return not in_motion or (self.result is not None and not any(self.findings()))",
        "return not in_motion or self.line.accounted == self.line.read",
        WRITER,
    ),
    Mutant(
        "sums of several moments are never balanced",
        "findings.py",
        "self.unjudged or self.in_motion",
        "self.unjudged",
        WRITER,
    ),
    Mutant(
        "a record whose headers nobody reads: it is parked, whoever it is for",
        "audit/classify.py",
        "_are_too_large(record.headers):",
        "False:",
        UNIT,
    ),
    Mutant(
        "a record with more headers than anybody reads",
        "audit/classify.py",
        "record.header_count > wire.MOST_HEADERS or ",
        "",
        "tests/unit/writer_read/test_many_headers.py",
    ),
    Mutant(
        "judging a range by its own routes: all that ever were may explain a missing row",
        "audit/settled_under.py",
        "if not digests or not digests <= log.routes.keys():",
        "if True:",
        STAGE,
    ),
    Mutant(
        "not guessing where nobody knows: one that agrees is believed",
        "audit/receipts.py",
        "                self.result.unjudged[routed.table] += 1\n",
        "                pass\n",
        STAGE,
    ),
    Mutant(
        "unjudged is never balanced",
        "findings.py",
        "self.unjudged or self.in_motion",
        "self.in_motion",
        STAGE,
    ),
    Mutant(
        "routes that are gone are not guessed",
        "audit/settled_under.py",
        "if not digests or not digests <= log.routes.keys():",
        "if not (digests := digests & log.routes.keys()):\n"
        "            digests = set(log.routes) and {next(iter(log.routes))}\n"
        "        if not digests:",
        STAGE,
    ),
    Mutant(
        "the routes of a marker",
        "audit/settled_under.py",
        "history.at(offset) or self._markers[database].at(offset)",
        "history.at(offset)",
        STAGE,
    ),
    Mutant(
        "naming what a ledger passed over",
        "spans.py",
        "strict=False) if end < start)",
        "strict=False) if False)",
        STAGE,
    ),
    Mutant(
        "the last word on a range",
        "spans.py",
        "while kept and kept[-1].start >= span.start:",
        "while False:",
        UNIT,
    ),
    Mutant(
        "looking offsets up",
        "audit/books.py",
        "    first = bisect_left(offsets, start)\n",
        "    first = next((i for i, o in enumerate(offsets) if not o < start), len(offsets))\n",
        UNIT,
    ),
    Mutant(
        "counting what is not Onramp's",
        "audit/settled_log.py",
        "            self.foreign += 1\n",
        "            pass\n",
        f"{UNIT} {STAGE}",
    ),
    Mutant(
        "an event that is in no place is lost",
        "audit/receipts.py",
        "            if row is None:\n",
        "            if False:\n",
        BOOKS,
    ),
    Mutant("two places of one event", "audit/receipts.py", "if len(outcomes) > 1:", "if False:", BOOKS),
    Mutant(
        "that of equal ids the first lands",
        "audit/receipts.py",
        "row.offset > max(\n                event.offset, self._readable.shared - 1\n            )",
        "False",
        BOOKS,
    ),
    Mutant(
        "that an event may wait for two databases and be nowhere else",
        "audit/checks.py",
        "if len(destinations) > 1 or len(waiting) > 1:",
        "if len(destinations) > 1:",
        UNIT,
    ),
    Mutant(
        "what was settled above a cut, or of a topic that is gone, is unjudged",
        "audit/incarnations.py",
        "                report.unjudged += n\n",
        "                pass\n",
        INCARNATIONS,
    ),
    Mutant(
        "reading the incarnations before",
        "audit/incarnations.py",
        "for incarnation in books.chain(source)\n",
        "for incarnation in books.chain(source)[-1:]\n",
        INCARNATIONS,
    ),
    Mutant(
        "that rows above its end are the next incarnation's",
        "audit/incarnations.py",
        "        until=until,\n    )",
        "        until=None,\n    )",
        INCARNATIONS,
    ),
    Mutant(
        "that below another incarnation's end a row may be the other's",
        "audit/incarnations.py",
        "        shared=max(others, default=0),\n",
        "        shared=0,\n",
        INCARNATIONS,
    ),
    Mutant(
        "an event in shared offsets must be somewhere",
        "audit/receipts.py",
        "            self._judge_shared(event, rows)\n",
        "            pass\n",
        INCARNATIONS,
    ),
    Mutant(
        "one row of a receipt for each incarnation that has it",
        "audit/checks.py",
        "if n > max(len(books.containing(source, offset)), 1):",
        "if n > len(books.incarnations_of(source)):",
        INCARNATIONS,
    ),
    Mutant(
        "the gaps of an incarnation whose log is gone",
        "audit/run.py",
        "        _check_others(books, report)\n",
        "",
        INCARNATIONS,
    ),
    Mutant(
        "that incarnations follow each other",
        "audit/settled_log.py",
        "[first, *succession.before, succession.topic_id]",
        "[first, succession.topic_id]",
        UNIT,
    ),
    Mutant(
        "that a zombie's entry is not the last",
        "audit/settled_log.py",
        "elif known.epoch <= succession.epoch:",
        "else:",
        UNIT,
    ),
)

SLOW: Final = (
    *BOUNDS,
    *KEEPER,
    *REFUSED_ADMIN,
    *OPERATORS,
    *REGISTRY_API,
    Mutant(
        "what Kafka deleted before it was settled is lost",
        "audit/run.py",
        "[*deleted(books), *given_up(books)]",
        "[*given_up(books)]",
        DELETED,
    ),
    Mutant(
        "it stays lost when a person accepts it",
        "audit/run.py",
        "[*deleted(books), *given_up(books)]",
        "[*deleted(books)]",
        DELETED,
    ),
    Mutant(
        "asking the neighbours where a ledger was moved",
        "audit/settled_under.py",
        "if history.began_before(offset) or offset >= self._covered[database]:",
        "if False:",
        ROUTES,
    ),
    Mutant(
        "missing a destination that never landed, whatever the routes were before and after",
        "audit/settled_under.py",
        "if not digests or not digests <= log.routes.keys():",
        "if True:",
        ROUTES,
    ),
    Mutant(
        "counting an event that waits once for each of its tables",
        "audit/receipts.py",
        "        self._count_waiting_too(event, judged)\n",
        "",
        WAITING,
    ),
    Mutant(
        "knowing what was replayed",
        "audit/receipts.py",
        "        if replayed and self._has_receipts(routed):\n",
        "        if False:\n",
        f"{REPLAYS}a_writer_that_is_killed_in_mid_replay_lands_each_event_once",
    ),
    Mutant(
        "rows of replayed events that are gone",
        "audit/replays.py",
        "    if not rows:\n",
        "    if False:\n",
        f"{REPLAYS}what_the_audit_says_of_replays_that_a_dump_has_lost",
    ),
    Mutant(
        "comparing what was edited by hand",
        "audit/replays.py",
        "return None if payload is None else payloads.edited(value, payload)",
        "return None",
        f"{KEPT}a_row_that_is_not_what_was_sent_back_is_named",
    ),
    Mutant(
        "replays that nothing says",
        "audit/replays.py",
        "if counted[outcome] != said[outcome]:",
        "if False:",
        f"{REPLAYS}what_the_audit_says_of_replays_that_a_dump_has_lost",
    ),
    Mutant(
        "counting a packet that waits once for each of its tables",
        "audit/receipts.py",
        "        self._count_waiting_too(event, by_database)\n",
        "",
        WAITING,
    ),
    *(
        Mutant(what, f"{file}.py", old, new, f"{KEPT}{test}")
        for what, file, old, new, test in (
            (
                "that everything below the keeper's offset is kept",
                "audit/kept",
                "                if is_due:\n",
                "                if False:\n",
                _PLANTED,
            ),
            (
                "that what is kept are the bytes that were parked",
                "audit/kept",
                "is_due and found[place].sha256 != digest",
                "False",
                _PLANTED,
            ),
            (
                "what the keeper has not come to",
                "audit/kept",
                "is_due=record.offset <",
                "is_due=True or record.offset <",
                "what_the_keeper_has_not_come_to_is_not_kept_yet_and_no_finding",
            ),
            (
                "that a log may be recreated",
                "audit/kept",
                " and offset <= spans[source][1]",
                "",
                "a_log_that_was_recreated_is_kept_from_its_start",
            ),
            (
                "the sum of an event's states",
                "audit/kept",
                "if total != found.total() + missing:",
                "if False:",
                _PLANTED,
            ),
            (
                "that a replay is known where it landed",
                "audit/kept",
                "named.add(Code.REPLAY_LOST",
                "(Code.REPLAY_LOST",
                _PLANTED,
            ),
            (
                "that what landed is not open in the control database",
                "audit/kept",
                'if kept.state in {"open", "discarded"}:',
                "if False:",
                "a_control_database_of_before_a_replay_is_contradicted_and_a_replay_heals_it",
            ),
            (
                "who discarded an event",
                "kept_sql",
                "WHERE e.state = 'discarded'\n",
                "WHERE false\n",
                _PLANTED,
            ),
            (
                "the digest of bytes in the control database",
                "kept_sql",
                "sha256(b.value) <> e.sha256",
                "false",
                _PLANTED,
            ),
            (
                "that bytes are in some place",
                "kept_sql",
                "ELSE NOT coalesce((",
                "ELSE false AND NOT coalesce((",
                _PLANTED,
            ),
            (
                "that an edited row is what the edit made",
                "audit/receipts",
                "return as_landed is None or ",
                "return replayed.sha256 is not None or ",
                "an_edited_row_is_what_the_edit_made_of_the_event",
            ),
            (
                "that the audit drops the values of what is parked",
                "audit/collect",
                "event.key, ParkedEvent(event.source, event.offset, intern(event.destination))",
                "event.key, event",
                "what_is_collected_of_parked_events_has_their_places_and_no_values",
            ),
            (
                "that a replayed row of another table is what landed",
                "audit/receipts",
                "elif wrong := wrong_row(",
                "elif wrong := replayed.to is None and wrong_row(",
                "an_edited_row_in_another_table_is_compared_too",
            ),
            (
                "that the edit is the one that landed",
                "audit/replays",
                "return edited.value if edited is not None and edited.sha256 == replayed.sha256 else None",
                "return edited and edited.value",
                "an_edit_that_nobody_knows_is_said_and_not_judged",
            ),
            (
                "that findings of what is kept are bounded",
                "audit/kept",
                "if self._counts[code, source] <= MOST_NAMED:",
                "if True:",
                "beyond_the_most_of_a_kind_they_are_a_number",
            ),
        )
    ),
    *(
        Mutant(
            what,
            "api/recheck.py",
            old,
            new,
            f"{LOST}what_a_dump_of_before_a_replay_has_lost_is_named_and_lands_once",
        )
        for what, old, new in (
            ("that a dry run of a recheck opens nothing", "if lost and not asked.dry_run:", "if lost:"),
            (
                "who had a recheck, and why",
                "record_act(conn, actor, ",
                "(conn, actor, ",
            ),
        )
    ),
    *(
        Mutant(f"{what}, in the whole story", file, old, new, STORY)
        for what, file, old, new in (
            (
                "the name of what a dump has lost",
                "audit/kept.py",
                "named.add(Code.REPLAY_LOST",
                "(Code.REPLAY_LOST",
            ),
            (
                "what a recheck opens",
                "store/recheck_sql.py",
                "WHERE s.event = ANY",
                "WHERE false AND s.event = ANY",
            ),
            ("a cause's constraint", "errors/cause.py", "place=constraint or ", "place="),
            (
                "a job that goes on after a kill",
                "store/work_sql.py",
                "state IN ('running', 'cancelling') AND",
                "state IN ('running', 'cancelling') AND done_to = 0 AND",
            ),
        )
    ),
    *(
        Mutant(f"{fact}, of a table made of a schema", file, old, new, f"{CREATED}{test}")
        for fact, file, old, new, test in (
            (
                "that its rows are looked for",
                "audit/receipts.py",
                "return of.exists(routed.table) if routed.typed else",
                "return False if routed.typed else",
                "what_is_planted_in_a_created_table_is_named",
            ),
            (
                "the values of its columns",
                "audit/classify.py",
                "        return all(\n            _same_value(",
                "        return True or all(\n            _same_value(",
                "what_is_planted_in_a_created_table_is_named",
            ),
            (
                "that its key is the id",
                "books_sql.py",
                "AND coalesce(a.attname = '_id', false)",
                "",
                "a_table_whose_key_is_another_than_the_id_is_checked_by_count",
            ),
            (
                "that a name's % is doubled",
                "books_sql.py",
                'part.replace("%", "%%")',
                "part",
                "nothing_of_a_created_table_is_unchecked",
            ),
        )
    ),
    *(
        Mutant(f"{fact} before the first event", "operate/destinations_sql.py", old, new, DESTINATIONS)
        for fact, old, new in (
            ("USAGE", "holds=usage[0]", "holds=True"),
            ("INSERT", "holds=may_insert", "holds=True"),
            ("SELECT on the key", "holds=column.may_select", "holds=True"),
            ("a key", "    if not usable:", "    if False:"),
            ("that no key is known", "    if wanted.unkeyed:", "    if False:"),
            ("a key that is checked at once", "holds=key.immediate", "holds=True"),
            ("types that fit", "return column.category == _TAKES[field.type]", "return True"),
            ("NOT NULL", "if column.not_null and", "if False and"),
        )
    ),
)

if __name__ == "__main__":
    run("services/admin", QUICK, SLOW)
