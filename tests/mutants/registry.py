"""`python -m tests.mutants.registry`: what keeps a wrong registry out, and the tests that hold each."""

from typing import Final

from tests.mutants.machine import Mutant, run

FILE: Final = "tests/unit/shared/test_registry_file.py"
SOURCES: Final = "tests/unit/shared/test_registry_sources.py"
DEPTH: Final = f"{FILE}::test_depth_is_refused_before_libyaml_ends_the_process"

REGISTRY: Final = (
    Mutant("a YAML key that comes twice", "strict_yaml.py", "if key in seen:", "if False:", tests=FILE),
    Mutant("the depth of YAML", "strict_yaml.py", "if depth > _MAX_DEPTH:", "if False:", tests=DEPTH),
    Mutant(
        "dates that do not exist",
        "strict_yaml.py",
        "except (ValueError, OverflowError):",
        "except KeyError:",
        tests=FILE,
    ),
    Mutant(
        "limits between which something is",
        "model.py",
        "low >= high",
        "False",
        tests="tests/unit/ingest/test_registry_watch.py::test_limits_that_mean_nothing_are_refused",
    ),
    Mutant(
        "an alarm before the budget",
        "sources.py",
        "if self.wal_alarm_bytes >= self.wal_budget_bytes:",
        "if False:",
        tests=SOURCES,
    ),
    Mutant(
        "what an entry is known by",
        "model.py",
        'object.__setattr__(self, "_fingerprint", known)',
        "pass",
        tests="tests/unit/shared/test_registry_chain.py::test_what_did_not_change_is_not_written_down_again",
    ),
    Mutant(
        "judging a large record some entries at a time",
        "chain.py",
        "and len(put[name]) > _AT_ONCE",
        "and len(put[name]) > 10**9",
        tests="tests/unit/shared/test_registry_chain.py::test_of_a_record_that_is_wrong_throughout"
        "_the_first_entries_are_judged_and_some_told",
    ),
    Mutant(
        "what a schema may unfold to",
        "model.py",
        "if reason := fault_of(schema):",
        "if reason := None:",
        tests=FILE,
    ),
)

if __name__ == "__main__":
    run("shared/registry", REGISTRY, ())
