"""`python -m tests.mutants.registry_edit`: what a change of the registry is held to."""

from typing import Final

from tests.mutants.machine import Mutant, run

EDIT: Final = "tests/unit/shared/test_registry_edit.py"

REGISTRY_EDIT: Final = (
    Mutant(
        "reading back who won",
        "shared/registry/editor.py",
        "if won is not None:",
        "if True:",
        tests=EDIT,
    ),
    Mutant(
        "an answer that was lost",
        "shared/registry/editor.py",
        "failure = e  #",
        "raise  #",
        tests=EDIT,
    ),
    Mutant(
        "who knows an older format",
        "shared/registry/editor.py",
        "if self.chain.is_outgrown:",
        "if False:",
        tests=EDIT,
    ),
    Mutant(
        "a section that is not named",
        "shared/registry/difference.py",
        "sorted(wanted.model_fields_set)",
        "sorted(type(wanted).model_fields)",
        tests=EDIT,
    ),
    Mutant(
        "the number of types",
        "shared/registry/difference.py",
        "if len(snapshot.event_types) > MOST_TYPES:",
        "if False:",
        tests=EDIT,
    ),
    Mutant(
        "the bytes of routes",
        "shared/registry/difference.py",
        "if size > MOST_ROUTE_BYTES:",
        "if False:",
        tests=EDIT,
    ),
    Mutant("breaks", "services/cli/registry/change.py", "if Kind.BREAK in kinds:", "if False:", tests=EDIT),
    Mutant(
        "what is undecided",
        "services/cli/registry/change.py",
        "if Kind.UNDECIDED in kinds and not wish.accept:",
        "if False:",
        tests=EDIT,
    ),
    Mutant(
        "a dry run",
        "services/cli/registry/change.py",
        "if made.problem or wish.is_dry:",
        "if made.problem:",
        tests=EDIT,
    ),
    Mutant(
        "schemas that do not compile",
        "services/cli/registry/change.py",
        "if reason := _wrong(after):",
        "if reason := '':",
        tests=EDIT,
    ),
)

MADE: Final = "tests/integration/writer_tables/test_created_tables.py"
TABLES: Final = (
    Mutant(
        "the writer's rights in a table that was made",
        "services/cli/registry/tables.py",
        "if lacking := _lacking(table, dsn):",
        'if lacking := "":',
        tests=MADE,
    ),
    Mutant(
        "a dry run makes no table", "services/cli/registry/tables.py", "if is_dry:", "if False:", tests=MADE
    ),
    Mutant(
        "a short wait for a table's lock",
        "services/admin/operate/create_sql.py",
        "-c lock_timeout=2000 ",
        "",
        tests=MADE,
    ),
)

if __name__ == "__main__":
    run(".", REGISTRY_EDIT, TABLES)
