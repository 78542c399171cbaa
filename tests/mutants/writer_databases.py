"""The protections of databases from each other: changed sets, owners, grants, silence."""

from typing import Final

from tests.mutants.machine import Mutant

_RETIRED: Final = "tests/faults/test_retired.py::test_"
_CHANGE: Final = "tests/faults/test_databases_change.py::test_"
_OWNERS: Final = "tests/faults/test_owners.py::test_"
_SILENCE: Final = "tests/integration/writer/test_silence.py::test_"
_SILENT: Final = "tests/faults/test_silent_databases.py::test_"
_WATCH: Final = "tests/unit/writer/test_watch.py::test_"
_RIGHTS: Final = "tests/faults/test_rights.py::test_"

DATABASES: Final = (
    Mutant(
        "a plan for a database that is not configured halts its partitions",
        "driver/partition_tracker.py",
        "self._plan_log.unfinished_databases(p, position) - set(self._databases.names)",
        "set()",
        f"{_CHANGE}f45_a_plan_for_a_renamed_database_halts_its_partitions_and_lands_under_the_old_name",
    ),
    Mutant(
        "a missing right is the database's matter",
        "postgres/pool.py",
        "raise unusable.of_database(e, conn, database, role) from None",
        "raise translate(e, database) from None",
        f"{_RIGHTS}f48_a_database_without_grants_is_out_alone_and_says_the_sql",
    ),
    Mutant(
        "a database of a newer Onramp ends the writer",
        "../../shared/migrations.py",
        "        self._require_no_newer(database, applied)\n",
        "",
        f"{_RIGHTS}f48_a_database_of_a_newer_onramp_ends_the_writer_whichever_it_is",
    ),
    Mutant(
        "the owner of a database",
        "recover/owner.py",
        "        if row is None or Owner(*row) == owner:\n",
        "        if True:\n",
        f"{_OWNERS}f45_a_second_name_for_a_database_is_halted_and_its_events_wait "
        f"{_OWNERS}f45_of_two_names_at_one_start_one_owns_the_database",
    ),
    Mutant(
        "looking at the owner before anything is changed",
        "recover/databases.py",
        "                await in_own_thread(owner.check, database, self._owner(name))\n",
        "",
        f"{_OWNERS}f45_a_database_of_another_kafka_is_halted_until_it_is_handed_over",
    ),
    Mutant(
        "rows that this writer never claimed fence nobody",
        "settle/ledger.py",
        "      ON l.topic_id = wanted.topic_id::uuid AND l.partition = wanted.partition\n"
        "    WHERE l.epoch >= %s\n",
        "      ON true\n    WHERE l.epoch >= %s\n",
        f"{_OWNERS}f45_a_later_epoch_on_rows_of_another_kafka_fences_nobody",
    ),
    Mutant(
        "the cut of a silent database",
        "../../shared/postgres/deadlines.py",
        "                self.own.shutdown(socket.SHUT_RDWR)\n",
        "                pass\n",
        f"{_SILENCE}f47_a_statement_of_a_stopped_server_ends",
    ),
    Mutant(
        "busy is not silent",
        "../../shared/postgres/signs_of_life.py",
        "            self._answered.set()\n",
        "            pass\n",
        f"{_WATCH}who_answers_is_waited_for_however_long_it_takes "
        f"{_SILENCE}a_statement_may_take_longer_than_a_silence",
    ),
    Mutant(
        "a patience of its own for each use",
        "../../shared/postgres/deadlines.py",
        "        if self.quiet_s >= self.patience_s:\n",
        "        if self.quiet_s >= _TURNS * turn_s:\n",
        f"{_WATCH}nobodys_patience_is_a_neighbours",
    ),
    Mutant(
        "asking again",
        "../../shared/postgres/deadlines.py",
        "len(self.questions) < _OPEN",
        "not self.asked",
        f"{_WATCH}a_lost_question_is_asked_again",
    ),
    Mutant(
        "asking where the connection is",
        "../../shared/postgres/deadlines.py",
        "peer_of(own)\n",
        "Address(socket.AF_UNSPEC, ('db.example.invalid', 1))\n",
        f"{_WATCH}the_server_of_a_connection_is_asked_where_it_is_and_not_by_its_name",
    ),
    Mutant(
        "what moves on a connection being a sign of life",
        "../../shared/postgres/deadlines.py",
        "            self.quiet_s = 0.0\n        return before.given",
        "            pass\n        return False and before.given",
        f"{_WATCH}what_the_server_gives_is_a_sign_of_life {_WATCH}what_the_server_takes_is_a_sign_of_life",
    ),
    Mutant(
        "what a stopped server's kernel takes being nobody else's sign",
        "../../shared/postgres/deadlines.py",
        "        return before.given != self._moved.given\n",
        "        return before != self._moved\n",
        f"{_WATCH}what_a_stopped_server_takes_of_one_is_no_sign_of_life_to_another",
    ),
    Mutant(
        "a watch that goes on without room for a thread",
        "../../shared/postgres/deadlines.py",
        "            except (RuntimeError, MemoryError):  # no room for a thread; asked next time\n",
        "            except MemoryError:\n",
        f"{_WATCH}a_watch_without_room_for_a_thread_goes_on",
    ),
    Mutant(
        "a deadline for a new connection",
        "../../shared/postgres/answering.py",
        "    while not use.silent.is_set():\n",
        "    while True:\n",
        f"{_SILENCE}f47_a_connection_that_nobody_hears_of_is_given_up",
    ),
    Mutant(
        "a thread of its own for each database's work",
        "postgres/database_threads.py",
        '    threading.Thread(target=run, name="database", daemon=True).start()\n',
        "    loop.run_in_executor(None, run)\n",
        "tests/unit/writer/test_database_threads.py",
    ),
    Mutant(
        "the end of a retired database's markers",
        "driver/take_over.py",
        " and not plan_log.retirements.is_over(\n"
        "            header.database, record.partition, record.offset\n        )",
        "",
        f"{_RETIRED}what_waits_for_a_retired_database_is_parked_and_the_books_balance",
    ),
    Mutant(
        "the end of a retired database's baselines",
        "partitions/retirements.py",
        "                names.pop(of[0], None)\n",
        "                pass\n",
        f"{_RETIRED}what_waits_for_a_retired_database_is_parked_and_the_books_balance",
    ),
    Mutant(
        "the audit's knowledge of retired databases",
        "../admin/audit/balance.py",
        "sorted(absent - self.books.settled.retired)",
        "sorted(absent)",
        f"{_RETIRED}what_waits_for_a_retired_database_is_parked_and_the_books_balance",
    ),
    Mutant(
        "parking before it is said that a database is retired",
        "recover/retire.py",
        '        failpoints.reach("writer.before_retired")\n',
        "        await self._record(self._plan_log.retirements.done_entries(name, word, upto))\n"
        '        failpoints.reach("writer.before_retired")\n',
        f"{_RETIRED}who_dies_before_it_is_said_parks_the_same_events_again",
    ),
    Mutant(
        "a word about a configured database that counts for nothing",
        "recover/retire.py",
        "        if name in self._databases.names:\n",
        "        if name in ():\n",
        f"{_RETIRED}a_word_about_a_database_that_is_configured_counts_for_nothing",
    ),
    Mutant(
        "what waits for a database that is not configured is said",
        "driver/take_over.py",
        "        self._status.update_unknown_databases(databases.unknown())\n",
        "",
        f"{_CHANGE}f45_what_waits_for_a_removed_database_is_named_and_kept_until_it_is_back",
    ),
)
