"""`python -m tests.mutants.registry_log`: by what readers of the registry agree."""

from typing import Final

from tests.mutants.machine import Mutant, run

CHAIN: Final = "tests/unit/shared/test_registry_chain.py"
WATCH: Final = "tests/unit/ingest/test_registry_watch.py"

REGISTRY_LOG: Final = (
    Mutant(
        "a file that is named in vain",
        "opened.py",
        "    _require_no_file()\n    return",
        "    return",
        tests="tests/unit/shared/test_registry_opened.py",
    ),
    Mutant(
        "following the last that counted",
        "chain.py",
        "if change.after != self.last:",
        "if False:",
        tests=CHAIN,
    ),
    Mutant("what is deleted was there", "chain.py", "if name not in there:", "if False:", tests=CHAIN),
    Mutant(
        "a later format where it may count",
        "chain.py",
        'if number > FORMAT and document.get("after") == self.last:',
        "if False:",
        tests=CHAIN,
    ),
    Mutant("nothing after a later format", "chain.py", "if self.is_outgrown:", "if False:", tests=CHAIN),
    Mutant(
        "a record that stops all readers",
        "chain.py",
        "except Exception as e:",
        "except KeyError as e:",
        tests=CHAIN,
    ),
    Mutant(
        "a later format starts nobody of before",
        "log_registry.py",
        "if chain.is_outgrown:",
        "if False:",
        tests=CHAIN,
    ),
    Mutant("a log without its beginning", "log_registry.py", "if span.first > 0:", "if False:", tests=CHAIN),
    Mutant("a log that is shorter", "log_registry.py", "if span.end < chain.end:", "if False:", tests=CHAIN),
    Mutant(
        "a log with another record there",
        "log_registry.py",
        "== [chain.last_digest]",
        "!= []",
        tests=CHAIN,
    ),
    Mutant(
        "keys of a log made anew",
        "log_registry.py",
        "if self._is_anew and before is not None:",
        "if False:",
        tests=CHAIN,
    ),
    Mutant("what the service demands", "log_registry.py", "        self._check(snapshot)\n", "", tests=CHAIN),
    Mutant(
        "no snapshot before the end was read",
        "log_registry.py",
        "raise InfrastructureError(REGISTRY_UNREAD, self.trouble)",
        "return EMPTY",
        tests=f"{CHAIN} {WATCH}",
    ),
)

if __name__ == "__main__":
    run("shared/registry", REGISTRY_LOG, ())
