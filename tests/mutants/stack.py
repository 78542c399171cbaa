"""`python -m tests.mutants.stack`: what protects the secrets of a laptop's stack, and the tests of it."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant as AnyMutant
from tests.mutants.machine import run

Mutant = partial(AnyMutant, tests="tests/unit/stack/test_private.py")

STACK: Final = (
    Mutant("narrowing the data folder", "private.py", "_narrow(folder, _FOLDER)", "pass"),
    Mutant("a private data folder", "up.py", "private_folder(folder)", "folder.mkdir(exist_ok=True)"),
    Mutant("narrowing secrets", "private.py", "_narrow(file, _FILE)", "pass"),
    Mutant("no empty secrets", "private.py", "if not text:", "if not file.exists():"),
    Mutant("secrets that are whole", "private.py", 'file.with_name(f"{file.name}.{os.getpid()}")', "file"),
    Mutant("folders that are everybody's", "private.py", "& stat.S_ISVTX", "& 0"),
    Mutant(
        "ports of which each is one stack's",
        "ports.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH",
        tests="tests/unit/stack/test_ports.py",
    ),
)
_CONNECT: Final = "tests/integration/tls/test_sources.py::test_a_change_becomes_a_record_and_signals_arrive"
_CLIENTS: Final = 'for client in ("", "producer.")'
SLOW: Final = (
    Mutant(
        "TLS of Kafka Connect's worker",
        "connect.py",
        _CLIENTS,
        'for client in ("producer.",)',
        tests=_CONNECT,
    ),
    Mutant("TLS of connectors' producers", "connect.py", _CLIENTS, 'for client in ("",)', tests=_CONNECT),
    Mutant(
        "a certificate's text by reference",
        "connect.py",
        '"config.providers": "env,directory",',
        "",
        tests=_CONNECT,
    ),
)

if __name__ == "__main__":
    run("stack", STACK, SLOW)
