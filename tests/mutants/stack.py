"""Mutants: a laptop's secrets and ports."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "narrowing the data folder",
        "stack/private_files.py",
        "_narrow(folder, _FOLDER)",
        "pass",
        "tests/unit/stack/test_private_files.py",
    ),
    Mutant(
        "narrowing secrets",
        "stack/private_files.py",
        "_narrow(file, _FILE)",
        "pass",
        "tests/unit/stack/test_private_files.py",
    ),
    Mutant(
        "ports of which each is one stack's",
        "stack/ports.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH",
        "tests/unit/stack/test_ports.py",
    ),
    Mutant(
        "TLS of Kafka Connect's worker",
        "stack/connect.py",
        'for client in ("", "producer.")',
        'for client in ("producer.",)',
        "tests/integration/tls/test_sources.py::test_a_change_becomes_a_record_and_signals_arrive",
    ),
)
