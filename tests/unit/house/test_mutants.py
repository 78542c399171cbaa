"""The lists of `make mutants` are about the code as it is: what a mutant removes is still there, once."""

import pytest

from tests.mutants import (
    gateway,
    registry,
    writer_databases,
    writer_driver,
    writer_holds,
    writer_kafka,
    writer_limits,
    writer_tasks,
)
from tests.mutants.machine import Mutant
from tests.unit.house.tree import ROOT

LISTED = [("services/ingest", m) for m in (*gateway.QUICK, *gateway.SLOW)]
LISTED += [("shared/registry", m) for m in registry.REGISTRY]
LISTED += [
    ("services/writer", m) for m in (*writer_tasks.TASKS, *writer_driver.DRIVER, *writer_databases.DATABASES)
]
LISTED += [("services/writer", m) for m in (*writer_limits.LIMITS, *writer_limits.SLOW)]
LISTED += [("services/writer", m) for m in (*writer_kafka.CUTS, *writer_kafka.LOGS)]
LISTED += [("services/writer", m) for m in (*writer_holds.HOLDS, *writer_holds.HALTS)]


@pytest.mark.parametrize(("folder", "mutant"), LISTED, ids=[m.removes for _, m in LISTED])
def test_a_mutant_finds_what_it_removes(folder: str, mutant: Mutant) -> None:
    text = (ROOT / folder / mutant.file).read_text("utf-8")
    assert text.count(mutant.old), "the code has moved on: bring the mutant along, or it tests nothing"
    for test in mutant.tests.split():
        assert (ROOT / test.partition("::")[0]).exists(), test
