"""Mutants: the client loses nothing, within its bounds, and says what became of each event."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "the bound of bytes",
        "clients/python/onramp_client/outbox.py",
        "size + more > self._batch_bytes",
        "False",
        "tests/unit/clients/test_batches.py",
    ),
    Mutant(
        "halving",
        "clients/python/onramp_client/verdicts.py",
        "half = len(events) // 2",
        "half = 0",
        "tests/unit/clients/test_batches.py",
    ),
    Mutant(
        "a verdict of one alone",
        "clients/python/onramp_client/verdicts.py",
        "if len(events) == 1:",
        "if len(events) == 0:",
        "tests/unit/clients/test_batches.py",
    ),
    Mutant(
        "surely not on Kafka",
        "clients/python/onramp_client/verdicts.py",
        "_FINAL and _is_problem(document)",
        "_FINAL",
        "tests/unit/clients/test_proxies.py",
    ),
    Mutant(
        "the event's own id",
        "clients/python/onramp_client/verdicts.py",
        'and result.get("id") == event.id',
        "",
        "tests/unit/clients/test_proxies.py",
    ),
    Mutant(
        "who was taken",
        "clients/python/onramp_client/sending.py",
        "return QueueFullError(message, taken)",
        "return error",
        "tests/unit/clients/test_many.py",
    ),
    Mutant(
        "a full disk in the midst",
        "clients/python/onramp_client/client.py",
        "(QueueFullError, OSError) as",
        "QueueFullError as",
        "tests/unit/clients/test_many.py",
    ),
    Mutant(
        "the spool's lock",
        "clients/python/onramp_client/spool_file.py",
        "fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        "tests/unit/clients/test_spool.py",
    ),
    Mutant(
        "checksums",
        "clients/python/onramp_client/spool_lines.py",
        "or crc != _crc(sign, rest)",
        "",
        "tests/unit/clients/test_spool.py",
    ),
    Mutant(
        "crossing out",
        "clients/python/onramp_client/spool_file.py",
        "self._write(spool_lines.settled_line(numbers))",
        "pass",
        "tests/unit/clients/test_spool.py",
    ),
    Mutant(
        "all that was left",
        "clients/python/onramp_client/client.py",
        "if self._spool.wants_more():",
        "if False:",
        "tests/unit/clients/test_spool.py",
    ),
    Mutant(
        "nothing is given up",
        "clients/python/onramp_client/client.py",
        'float("inf") if spool else give_up_seconds',
        "give_up_seconds",
        "tests/unit/clients/test_spool.py",
    ),
    Mutant(
        "records of a stream",
        "clients/python/onramp_client/lambda_handler.py",
        "return not record.is_of_a_stream",
        "return True",
        "tests/unit/clients/test_lambda_handler.py",
    ),
)
