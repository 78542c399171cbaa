"""`python -m tests.mutants [AREA …]`: see `tests.mutants.machine`."""

from tests.mutants.all import AREAS, CORE
from tests.mutants.machine import run

if __name__ == "__main__":
    run(AREAS, CORE)
