"""What the lag says in trouble, and what it does not claim to know."""

from typing import Final

from tests.mutants.machine import Mutant

_UNIT: Final = "tests/unit/writer/test_lag.py::test_"
_FAULT: Final = "tests/faults/test_lag.py::test_"
_SERVER: Final = "tests/unit/writer/test_status_server.py::test_"
_OUT: Final = f"{_FAULT}with_the_only_database_out_what_waits_in_kafka_is_lag"

LAG: Final = (
    Mutant(
        "the age that nobody looked up",
        "observe/lag.py",
        "return None if self.since is None else",
        "return 0.0 if self.since is None else",
        f"{_UNIT}an_event_that_was_not_looked_up_has_no_age_and_one_that_was_is_not_looked_up_again",
    ),
    Mutant(
        "the age of what claims to be of the future",
        "driver/lag.py",
        "min(timestamp, now)",
        "timestamp",
        f"{_UNIT}an_event_that_claims_to_be_of_2100_is_late_since_it_was_seen",
    ),
    Mutant(
        "the end that a silent leader had",
        "driver/lag.py",
        "self._ends |= answers",
        "self._ends = answers",
        f"{_UNIT}what_a_silent_leader_has_is_what_it_had",
    ),
    Mutant(
        "since when a stable offset stands still",
        "driver/lag.py",
        "self._open = found | silent | known",
        "self._open = found | silent",
        f"{_UNIT}a_transaction_is_long_when_the_stable_offset_stands_still",
    ),
    Mutant(
        "the stable offset that moves on",
        "driver/lag.py",
        "if p in found and each.offset == found[p].offset",
        "if p in found",
        f"{_UNIT}a_transaction_is_long_when_the_stable_offset_stands_still",
    ),
    Mutant(
        "lag without ages",
        "driver/lag.py",
        "with suppress(TimeoutError):",
        "with suppress():",
        f"{_UNIT}ages_that_cannot_be_read_hide_no_event",
    ),
    Mutant(
        "a standby without another's lag",
        "observe/status.py",
        "self.update_lag({})  # it is the other's now",
        "pass",
        f"{_UNIT}a_writer_that_stands_by_shows_no_lag_of_another",
    ),
    Mutant(
        "an end for silent clients of the status port",
        "observe/status_server.py",
        "timeout = SILENT_SECONDS",
        "timeout = None",
        f"{_SERVER}a_client_that_is_silent_is_gone_after_a_while",
    ),
    Mutant(
        "a bound for the status port's connections",
        "observe/status_server.py",
        "if len(self._open) > MOST_CONNECTIONS:",
        "if False:",
        f"{_SERVER}a_scanner_takes_neither_threads_nor_a_probes_answer",
    ),
)

#: With a Kafka of their own.
LAG_ON_KAFKA: Final = (
    Mutant(
        "the end behind an open transaction",
        "kafka/leaders.py",
        "request = partial(_EndsRequest, isolation=_READ_UNCOMMITTED)",
        "request = partial(_EndsRequest, isolation=_READ_COMMITTED)",
        f"{_FAULT}a_transaction_that_another_producer_leaves_open_is_lag_and_has_a_name",
    ),
    Mutant(
        "the states that a session ends with",
        "driver/loop.py",
        "self._update_status()  # what ends a session may have put a database out",
        "pass",
        f"{_UNIT}what_ends_a_session_may_have_put_a_database_out_and_that_is_shown",
    ),
    Mutant(
        "the sessions of a database that does not answer",
        "observe/status.py",
        "self.metrics.series.show(self.metrics.connections, shown, operator.add)",
        "for labels, n in shown.items():\n            self.metrics.connections.labels(*labels).set(n)",
        _OUT,
    ),
)
