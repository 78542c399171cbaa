"""`python -m tests.mutants.audit`: what keeps the audit from calling balanced what is not, and its tests."""

from typing import Final

from tests.mutants.machine import Mutant, run

UNIT: Final = "tests/unit/admin"
STAGE: Final = "tests/integration/admin/test_settled_under.py"
BOOKS: Final = "tests/integration/admin/test_audit.py"
#: A destination that silently never landed, before and after a change of routes, under a whole writer.
ROUTES: Final = "tests/faults/test_routes_of_the_time.py"
#: Events for several tables of a database that is out, under a whole writer.
WAITING: Final = "tests/faults/test_audit_of_what_waits.py"
#: Two lives of one log, and of two topics of one name.
LIVES: Final = "tests/integration/admin/test_lives.py"
#: A writer that goes on while the books are read.
MOTION: Final = "tests/integration/admin/test_in_motion.py"
#: Events that Kafka deleted before they were settled, under a whole writer.
DELETED: Final = "tests/faults/test_audit_of_lives.py"

QUICK: Final = (
    Mutant(
        "leaving out a partition that nobody leads: all others would wait for it",
        "kafka_logs.py",
        "for source in asked.keys() - without]",
        "for source in asked]",
        UNIT,
    ),
    Mutant(
        "judging nothing without a part of Onramp's own notes",
        "audit/leaderless.py",
        "return not any(source.topic in own for source in books.leaderless)",
        "return True",
        UNIT,
    ),
    Mutant(
        "books without a partition that nobody leads are never balanced",
        "findings.py",
        "self.in_motion or self.leaderless",
        "self.in_motion",
        UNIT,
    ),
    Mutant(
        "what a batch has not brought to a database yet: it is not lost there",
        "audit/motion.py",
        "return range(first, books.stand(life))",
        "return range(0)",
        MOTION,
    ),
    Mutant(
        "where the group stood before the databases were read",
        "audit/run.py",
        "books.committed = committed",
        "books.committed = books.group",
        MOTION,
    ),
    Mutant(
        "sums of several moments are no proof, whatever they come to",
        "audit/balance.py",
        "return not in_motion or (self.seen is not None and not any(self.findings()))",
        "return not in_motion or self.line.accounted == self.line.read",
        MOTION,
    ),
    Mutant(
        "sums of several moments are never balanced",
        "findings.py",
        "self.unjudged or self.in_motion",
        "self.unjudged",
        MOTION,
    ),
    Mutant(
        "a record whose headers nobody reads: it is parked, whoever it is for",
        "audit/classify.py",
        "if _are_too_large(record.headers):",
        "if False:",
        UNIT,
    ),
    Mutant(
        "judging a range by its own routes: all that ever were may explain a missing row",
        "audit/settled_under.py",
        "if not digests or not digests <= log.routes.keys():",
        "if True:",
        STAGE,
    ),
    Mutant(
        "not guessing where nobody knows: one that agrees is believed",
        "audit/receipts.py",
        "                self.seen.unjudged[routed.place] += 1\n",
        "                pass\n",
        STAGE,
    ),
    Mutant(
        "unjudged is never balanced",
        "findings.py",
        "self.unjudged or self.in_motion",
        "self.in_motion",
        STAGE,
    ),
    Mutant(
        "routes that are gone are not guessed",
        "audit/settled_under.py",
        "if not digests or not digests <= log.routes.keys():",
        "if not (digests := digests & log.routes.keys()):\n"
        "            digests = set(log.routes) and {next(iter(log.routes))}\n"
        "        if not digests:",
        STAGE,
    ),
    Mutant(
        "the routes of a marker",
        "audit/settled_under.py",
        "history.at(offset) or self._markers[database].at(offset)",
        "history.at(offset)",
        STAGE,
    ),
    Mutant(
        "naming what a ledger passed over",
        "spans.py",
        "strict=False) if end < start)",
        "strict=False) if False)",
        STAGE,
    ),
    Mutant(
        "the last word on a range",
        "spans.py",
        "while found and found[-1].start >= span.start:",
        "while False:",
        UNIT,
    ),
    Mutant(
        "looking offsets up",
        "audit/books.py",
        "    first = bisect_left(offsets, start)\n",
        "    first = next((i for i, o in enumerate(offsets) if not o < start), len(offsets))\n",
        UNIT,
    ),
    Mutant(
        "counting what is not Onramp's",
        "audit/settled_log.py",
        "            self.foreign += 1\n",
        "            pass\n",
        f"{UNIT} {STAGE}",
    ),
    Mutant(
        "an event that is in no place is lost",
        "audit/receipts.py",
        "            if row is None:\n",
        "            if False:\n",
        BOOKS,
    ),
    Mutant("two places of one event", "audit/receipts.py", "if len(found) > 1:", "if False:", BOOKS),
    Mutant(
        "that of equal ids the first lands",
        "audit/receipts.py",
        "elif row.source == self._life.source and row.offset > max(event.offset, self._part.shared - 1):",
        "elif False:",
        BOOKS,
    ),
    Mutant(
        "that an event may wait for two databases and be nowhere else",
        "audit/books.py",
        "if len(found) > 1 or len(waits) > 1:",
        "if len(found) > 1:",
        UNIT,
    ),
    Mutant(
        "what was settled above a cut, or of a topic that is gone, is unjudged",
        "audit/incarnations.py",
        "                report.unjudged += n\n",
        "                pass\n",
        LIVES,
    ),
    Mutant(
        "reading the lives before",
        "audit/incarnations.py",
        "for life in books.chain(source)]",
        "for life in books.chain(source)[-1:]]",
        LIVES,
    ),
    Mutant(
        "that rows above its end are the next life's",
        "audit/incarnations.py",
        "        until,\n    )",
        "        None,\n    )",
        LIVES,
    ),
    Mutant(
        "that below another life's end a row may be the other's",
        "audit/incarnations.py",
        "        max(others, default=0),\n",
        "        0,\n",
        LIVES,
    ),
    Mutant(
        "an event in shared offsets must be somewhere",
        "audit/receipts.py",
        "            self._judge_shared(event, rows)\n",
        "            pass\n",
        LIVES,
    ),
    Mutant(
        "one row of a receipt for each life that has it",
        "audit/books.py",
        "if n > max(len(books.having(source, offset)), 1):",
        "if n > len(books.of(source)):",
        LIVES,
    ),
    Mutant(
        "the gaps of a life whose log is gone",
        "audit/run.py",
        "        _check_others(books, report)\n",
        "",
        LIVES,
    ),
    Mutant(
        "that lives follow each other",
        "audit/settled_log.py",
        "[first, *line.before, line.life]",
        "[first, line.life]",
        UNIT,
    ),
    Mutant(
        "that a zombie's line is not the last",
        "audit/settled_log.py",
        "elif known.epoch <= line.epoch:",
        "else:",
        UNIT,
    ),
)

SLOW: Final = (
    Mutant(
        "what Kafka deleted before it was settled is lost",
        "audit/run.py",
        "[*deleted(books), *given_up(books)]",
        "[*given_up(books)]",
        DELETED,
    ),
    Mutant(
        "it stays lost when a person accepts it",
        "audit/run.py",
        "[*deleted(books), *given_up(books)]",
        "[*deleted(books)]",
        DELETED,
    ),
    Mutant(
        "asking the neighbours where a ledger was moved",
        "audit/settled_under.py",
        "if history.began_before(offset) or offset >= self._covered[database]:",
        "if False:",
        ROUTES,
    ),
    Mutant(
        "missing a destination that never landed, whatever the routes were before and after",
        "audit/settled_under.py",
        "if not digests or not digests <= log.routes.keys():",
        "if True:",
        ROUTES,
    ),
    Mutant(
        "counting an event that waits once for each of its tables",
        "audit/receipts.py",
        "        self._see_waiting(event, judged)\n",
        "",
        WAITING,
    ),
    Mutant(
        "counting a packet that waits once for each of its tables",
        "audit/receipts.py",
        "        self._see_waiting(event, places)\n",
        "",
        WAITING,
    ),
)

if __name__ == "__main__":
    run("services/admin", QUICK, SLOW)
