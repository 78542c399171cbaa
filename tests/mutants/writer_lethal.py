"""The protections from a record that kills the process that works on it."""

from typing import Final

from tests.mutants.machine import Mutant

_LETHAL: Final = "tests/faults/test_f46_lethal.py::test_f46_"
_KILLS: Final = f"{_LETHAL}a_record_that_kills_its_writers_is_halted_alone_and_all_before_it_lands"
_UNFINISHED: Final = "tests/unit/writer/test_unfinished_ranges.py"
_PLANS: Final = "tests/unit/writer/test_settled.py"

LETHAL: Final = (
    Mutant(
        "a process that goes on, told from one that crashed",
        "partitions/plan_log.py",
        "self._last_epochs[plan.process] == epoch",
        "epoch",
        _PLANS,
    ),
    Mutant(
        "the sessions of this process, told from others' crashes",
        "partitions/plan_log.py",
        "plan.process != self.process and ",
        "",
        _PLANS,
    ),
    Mutant(
        "a failure that its process survived, told from a crash",
        "partitions/plan_log.py",
        "if plan.begun_at and ",
        "if ",
        _PLANS,
    ),
    Mutant(
        "what killed no process alone, before what did",
        "plan/unfinished_ranges.py",
        "sorted(self._isolated_to, key=lambda p: p in self._lethal)",
        "sorted(self._isolated_to)",
        _UNFINISHED,
    ),
    Mutant(
        "a longer pause before the record that kills is tried again",
        "plan/unfinished_ranges.py",
        "tries = sum(len(r) == 1 for r, _ in crashed if r == last)",
        "tries = 0",
        _UNFINISHED,
    ),
)

KILLS: Final = (
    Mutant(
        "a batch of its own for what three processes were killed in",
        "plan/unfinished_ranges.py",
        "        if len(crashed) >= _CRASHES_BEFORE_ISOLATION:\n",
        "        if False:\n",
        _KILLS,
    ),
    Mutant(
        "the others' turn before what kills",
        "plan/unfinished_ranges.py",
        "if others and not self._others_had_a_turn:",
        "if False:",
        _KILLS,
    ),
    Mutant(
        "halves of what kills alone",
        "plan/unfinished_ranges.py",
        "newest = half(replace(newest, start=next_offset))",
        "pass",
        _KILLS,
    ),
    Mutant(
        "a pause of what kills alone",
        "driver/partition_tracker.py",
        "        elif pause := self._unfinished.pause(p, position):\n",
        "        elif pause := None:\n",
        f"{_LETHAL}a_record_that_kills_is_looked_for_while_the_others_land",
    ),
    Mutant(
        "a word that the process survived what it set aside",
        "driver/batch.py",
        "    await parts.partitions.record(parts.plan_log.survived_entries(parts.epoch))\n",
        "",
        f"{_LETHAL}a_process_that_survives_its_failure_did_not_crash",
    ),
)
