"""The writer's manners: one lands, others stand by, and an older one keeps its hands off."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant as AnyMutant

Mutant = partial(AnyMutant, tests="tests/faults/test_standby.py")

STANDBY: Final = (
    Mutant(
        "a look at Kafka while standing by",
        "driver/collector.py",
        "            status.update_kafka(reachable=True)\n",
        "            pass\n",
        tests="tests/faults/test_standby.py::test_a_standby_shows_whether_kafka_answers_it",
    ),
    Mutant("standing by", "driver/standby.py", "if not asking.done() or asking.result():", "if True:"),
    Mutant(
        "having the lock", "driver/standby.py", "SELECT pg_try_advisory_lock(%s)", "SELECT %s IS NOT NULL"
    ),
    Mutant(
        "the lock in the next database",
        "driver/standby.py",
        "await in_own_thread(lock.keep)",
        "pass",
    ),
    Mutant(
        "giving up the lock",
        "driver/standby.py",
        "stack.push_async_callback(in_own_thread, lock.close)",
        "pass",
    ),
    Mutant(
        "an end to waiting for a session",
        "postgres/pool.py",
        "                    self._watch.attach(use, conn)\n                yield conn",
        "                    pass\n                yield conn",
    ),
    Mutant(
        "saying that it stands by", "driver/standby.py", "status.update_standby(lock.database_name)", "pass"
    ),
    Mutant(
        "ending before a newer schema",
        "recover/databases.py",
        "if ends(error):",
        "if False:",
        tests="tests/faults/test_downgrade.py",
    ),
)
