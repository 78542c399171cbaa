"""`python -m tests.mutants.contracts`: what an event type promises, and the tests that hold each."""

from typing import Final

from tests.mutants.machine import Mutant, run

CONTRACTS: Final = (
    Mutant(
        "the retriever that raises",
        "json_schema.py",
        "retriever=_reject_reference",
        "retriever=lambda uri: {}",
        tests="tests/unit/ingest/test_event_types.py",
    ),
)

if __name__ == "__main__":
    run("shared/contracts", CONTRACTS, ())
