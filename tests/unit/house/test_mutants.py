"""The lists of `make mutants` are about the code as it is: what a mutant removes is still there, once."""

import pytest

from tests.mutants import (
    audit,
    client,
    contracts,
    elt,
    gateway,
    gateway_kafka,
    registry,
    registry_edit,
    registry_log,
    secured,
    sources,
    stack,
    writer,
)
from tests.mutants.machine import Mutant
from tests.unit.house.tree import ROOT

LISTED = [("services/ingest", m) for m in (*gateway.QUICK, *gateway.SLOW)]
LISTED += [("services/ingest", m) for m in (*gateway_kafka.QUICK, *gateway_kafka.SLOW)]
LISTED += [("shared/registry", m) for m in registry.REGISTRY]
LISTED += [("shared/registry", m) for m in registry_log.REGISTRY_LOG]
LISTED += [
    (".", m)
    for m in (
        *registry_edit.REGISTRY_EDIT,
        *registry_edit.ONE_TRUTH,
        *registry_edit.TABLES,
        *registry_edit.FOLLOWED,
        *registry_edit.OF_TOPICS,
    )
]
LISTED += [("shared/contracts", m) for m in contracts.CONTRACTS]
LISTED += [("shared", m) for m in (*secured.QUICK, *secured.SLOW)]
LISTED += [("clients/python/onramp_client", m) for m in client.QUICK]
LISTED += [("services/elt", m) for m in elt.MERGE]
LISTED += [("services/elt/agent", m) for m in (*sources.QUICK, *sources.SLOW)]
LISTED += [("stack", m) for m in (*stack.STACK, *stack.SLOW)]
LISTED += [("services/writer", m) for m in (*writer.QUICK, *writer.SLOWER)]
LISTED += [("services/admin", m) for m in (*audit.QUICK, *audit.SLOW)]


@pytest.mark.parametrize(("folder", "mutant"), LISTED, ids=[m.removes for _, m in LISTED])
def test_a_mutant_finds_what_it_removes(folder: str, mutant: Mutant) -> None:
    text = (ROOT / folder / mutant.file).read_text("utf-8")
    assert text.count(mutant.old), "the code has moved on: bring the mutant along, or it tests nothing"
    for test in mutant.tests.split():
        path, _, name = test.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        file = ROOT / path
        assert f"def {function}(" in file.read_text("utf-8") if name else file.exists(), test
