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
)

if __name__ == "__main__":
    run("stack", STACK, ())
