"""Mutants: one registry, in one order, that no writer of it overwrites unseen."""

from typing import Final

from tests.mutants.machine import Mutant

MUTANTS: Final = (
    Mutant(
        "a YAML key that comes twice",
        "shared/registry/strict_yaml.py",
        "if key in keys:",
        "if False:",
        "tests/unit/shared/test_registry_file.py",
    ),
    Mutant(
        "what an entry is known by",
        "shared/registry/entries.py",
        'object.__setattr__(self, "_fingerprint", known)',
        "pass",
        "tests/unit/shared/test_registry_change_log.py::test_change_serializes_and_hashes_only_the_changed_entries",
    ),
    Mutant(
        "following the last that counted",
        "shared/registry/change_log.py",
        "if change.after != self.last:",
        "if False:",
        "tests/unit/shared/test_registry_change_log.py",
    ),
    Mutant(
        "a later format where it may count",
        "shared/registry/change_log.py",
        'if number > FORMAT and document.get("after") == self.last:',
        "if False:",
        "tests/unit/shared/test_registry_change_log.py",
    ),
    Mutant(
        "nothing after a later format",
        "shared/registry/change_log.py",
        "if self.is_outgrown:",
        "if False:",
        "tests/unit/shared/test_registry_change_log.py",
    ),
    Mutant(
        "a log that is shorter",
        "shared/registry/log_registry.py",
        "if span.end < chain.end:",
        "if False:",
        "tests/unit/shared/test_registry_change_log.py",
    ),
    Mutant(
        "a log with another record there",
        "shared/registry/log_registry.py",
        "== [chain.last_digest]",
        "!= []",
        "tests/unit/shared/test_registry_change_log.py",
    ),
    Mutant(
        "no snapshot before the end was read",
        "shared/registry/log_registry.py",
        "raise InfrastructureError(REGISTRY_UNREAD, self.trouble)",
        "return EMPTY",
        "tests/unit/shared/test_registry_change_log.py tests/unit/ingest/test_registry_watch.py",
    ),
    Mutant(
        "reading back who won",
        "shared/registry/editor.py",
        "if won is not None:",
        "if True:",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "an answer that was lost",
        "shared/registry/editor.py",
        "failure = e  #",
        "raise  #",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "breaks",
        "services/ops/registry/change.py",
        "if Kind.BREAK in kinds:",
        "if False:",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "a dry run",
        "services/ops/registry/change.py",
        "if made.problem or wish.is_dry:",
        "if made.problem:",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "schemas that do not compile",
        "services/ops/registry/change.py",
        "reason = unfit or _wrong(before, after, differs)",
        "reason = unfit",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "what others changed",
        "shared/registry/merge.py",
        "else:\n            entries[name] = there[name]",
        "else:\n            pass",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "what both changed",
        "shared/registry/merge.py",
        "elif mine != old:",
        "elif False:",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "what is a file's",
        "shared/registry/change_log.py",
        "self._of_files.setdefault(section, {}).update(value)",
        "pass",
        "tests/unit/shared/test_registry_edit.py",
    ),
    Mutant(
        "the writer's rights in a table that was made",
        "services/ops/registry/tables.py",
        "if lacking := _lacking(table, dsn):",
        'if lacking := "":',
        "tests/integration/writer_tables/test_created_tables.py",
    ),
    Mutant(
        "no events under a registry that was lost",
        "services/writer/driver/loop.py",
        "        elif topic in plan_log.registries:\n",
        "        elif False:\n",
        "tests/faults/test_registry_unreachable.py"
        "::test_nothing_lands_after_the_loss_of_the_registry_until_the_file_is_applied_again",
    ),
)
