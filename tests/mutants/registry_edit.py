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
    Mutant("breaks", "services/admin/registry/change.py", "if Kind.BREAK in kinds:", "if False:", tests=EDIT),
    Mutant(
        "what is undecided",
        "services/admin/registry/change.py",
        "if Kind.UNDECIDED in kinds and not wish.accept:",
        "if False:",
        tests=EDIT,
    ),
    Mutant(
        "a dry run",
        "services/admin/registry/change.py",
        "if made.problem or wish.is_dry:",
        "if made.problem:",
        tests=EDIT,
    ),
    Mutant(
        "schemas that do not compile",
        "services/admin/registry/change.py",
        "if reason := _wrong(after, differs):",
        "if reason := '':",
        tests=EDIT,
    ),
)

FOLLOW: Final = "tests/unit/cli/test_followed_file.py"
ONE_TRUTH: Final = (
    Mutant(
        "what no file has named",
        "shared/registry/merge.py",
        "entries[name] = there[name]\n                result",
        "result",
        tests=EDIT,
    ),
    Mutant(
        "what others took away",
        "shared/registry/merge.py",
        "elif now is None:\n            del entries[name]",
        "elif now is None:\n            pass",
        tests=EDIT,
    ),
    Mutant(
        "what others changed",
        "shared/registry/merge.py",
        "else:\n            entries[name] = there[name]",
        "else:\n            pass",
        tests=EDIT,
    ),
    Mutant("what both changed", "shared/registry/merge.py", "elif mine != old:", "elif False:", tests=EDIT),
    Mutant(
        "what is a file's",
        "shared/registry/chain.py",
        "self._of_files.setdefault(section, {}).update(value)",
        "pass",
        tests=EDIT,
    ),
    Mutant(
        "what a file takes away is its own no more",
        "shared/registry/chain.py",
        "self._of_files.get(section, {}).pop(name, None)",
        "pass",
        tests=EDIT,
    ),
    Mutant(
        "a race that was lost",
        "services/cli/registry/followed_file.py",
        "range(_TRIES)",
        "range(1)",
        tests=FOLLOW,
    ),
    Mutant(
        "a file that is half written",
        "services/cli/registry/followed_file.py",
        "if cut := self._cut():",
        "if cut := '':",
        tests=FOLLOW,
    ),
    Mutant(
        "Kafka that was out",
        "services/cli/registry/followed_file.py",
        '{error.detail}; it is tried again"])\n            return None',
        '{error.detail}; it is tried again"])\n            self._stamp = stamp\n            return None',
        tests=FOLLOW,
    ),
    Mutant(
        "what was said already",
        "services/cli/registry/followed_file.py",
        "if lines and lines != self._said:",
        "if lines:",
        tests=FOLLOW,
    ),
    Mutant("lines", "shared/registry/strict_yaml.py", "line, node = found", "pass", tests=EDIT),
)

MADE: Final = "tests/integration/writer_tables/test_created_tables.py"
TABLES: Final = (
    Mutant(
        "the writer's rights in a table that was made",
        "services/admin/registry/tables.py",
        "if lacking := _lacking(table, dsn):",
        'if lacking := "":',
        tests=MADE,
    ),
    Mutant(
        "a dry run makes no table", "services/admin/registry/tables.py", "if is_dry:", "if False:", tests=MADE
    ),
    Mutant(
        "a short wait for a table's lock",
        "services/admin/operate/create_sql.py",
        "-c lock_timeout=2000 ",
        "",
        tests=MADE,
    ),
)

UP: Final = "tests/e2e/test_registry_file.py"
FOLLOWED: Final = (
    Mutant(
        "the file before the services",
        "stack/up.py",
        "        self._before_services()\n        self._start_services()",
        "        self._start_services()",
        tests=UP,
    ),
    Mutant(
        "a file that was saved",
        "services/cli/stack_run.py",
        "self._stack.check()\n        if self._followed is not None:",
        "self._stack.check()\n        if False:",
        tests=UP,
    ),
)

_REASON: Final = (
    "tests/integration/admin/test_topics.py::"
    "test_a_reason_is_an_act_and_while_it_cannot_be_written_nothing_is_changed"
)
OF_TOPICS: Final = (
    Mutant(
        "the reason of what is done to a topic",
        "services/cli/registry/acts.py",
        "            record_act(conn, getpass.getuser(), act, subject, reason)\n",
        "",
        tests=_REASON,
    ),
    Mutant(
        "that a topic which was not made is no act",
        "services/cli/registry/topics.py",
        "            take_back()\n",
        "            pass\n",
        tests=_REASON,
    ),
)

if __name__ == "__main__":
    run(".", (*REGISTRY_EDIT, *ONE_TRUTH), (*TABLES, *FOLLOWED, *OF_TOPICS))
