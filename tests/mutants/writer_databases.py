"""The protections of databases from each other: changed sets, owners, grants, silence."""

from typing import Final

from tests.mutants.machine import Mutant

_CHANGE: Final = "tests/faults/test_databases_change.py::test_"
_OWNERS: Final = "tests/faults/test_owners.py::test_"
_SILENCE: Final = "tests/integration/writer/test_silence.py::test_"
_SILENT: Final = "tests/faults/test_silent_databases.py::test_"
_RIGHTS: Final = "tests/faults/test_rights.py::test_"

DATABASES: Final = (
    Mutant(
        "a plan for a database that is not configured halts its partitions",
        "view.py",
        "self._settled.unfinished_in(p, stand) - set(self._databases.names)",
        "set()",
        f"{_CHANGE}f45_a_plan_for_a_renamed_database_halts_its_partitions_and_lands_under_the_old_name",
    ),
    Mutant(
        "a missing right is the database's matter",
        "pool.py",
        "raise unfit.of_database(e, conn, database, role) from None",
        "raise translate(e, database) from None",
        f"{_RIGHTS}f48_a_database_without_grants_is_out_alone_and_says_the_sql",
    ),
    Mutant(
        "a database of a newer Onramp is out",
        "migrations.py",
        "        _see_no_newer(database, applied)\n",
        "",
        f"{_RIGHTS}f48_a_database_of_a_newer_onramp_is_out_alone",
    ),
    Mutant(
        "the owner of a database",
        "owner.py",
        "        if found is None or Owner(*found) == owner:\n",
        "        if True:\n",
        f"{_OWNERS}f45_a_second_name_for_a_database_is_halted_and_its_events_wait "
        f"{_OWNERS}f45_of_two_names_at_one_start_one_owns_the_database",
    ),
    Mutant(
        "looking at the owner before anything is changed",
        "databases.py",
        "                await apart(owner.see, database, self._owner(name))\n",
        "",
        f"{_OWNERS}f45_a_database_of_another_kafka_is_halted_until_it_is_handed_over",
    ),
    Mutant(
        "rows that this writer never claimed fence nobody",
        "ledger.py",
        "      ON l.topic_id = wanted.topic_id::uuid AND l.partition = wanted.partition\n"
        "    WHERE l.epoch >= %s\n",
        "      ON true\n    WHERE l.epoch >= %s\n",
        f"{_OWNERS}f45_a_later_epoch_on_rows_of_another_kafka_fences_nobody",
    ),
    Mutant(
        "the cut of a silent database",
        "watch.py",
        "                self.own.shutdown(socket.SHUT_RDWR)\n",
        "                pass\n",
        f"{_SILENCE}f47_a_statement_of_a_stopped_server_ends",
    ),
    Mutant(
        "busy is not silent",
        "watch.py",
        "        answered.set()\n",
        "        pass\n",
        "tests/unit/writer/test_watch.py",
    ),
    Mutant(
        "a deadline for a new connection",
        "pool.py",
        "        while not use.silent.is_set():\n",
        "        while True:\n",
        f"{_SILENCE}f47_a_connection_to_a_black_hole_is_given_up",
    ),
    Mutant(
        "a thread of its own for each database's work",
        "apart.py",
        '    threading.Thread(target=run, name="apart", daemon=True).start()\n',
        "    loop.run_in_executor(None, run)\n",
        f"{_SILENT}f47_eight_silent_databases_hold_nobody",
    ),
    Mutant(
        "what waits for a database that is not configured is said",
        "job.py",
        "        self._status.see_unknown(databases.unknown())\n",
        "",
        f"{_CHANGE}f45_what_waits_for_a_removed_database_is_named_and_kept_until_it_is_back",
    ),
)
