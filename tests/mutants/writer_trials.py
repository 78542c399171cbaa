"""Mutants of the room `trial`: what a planned change is counted by, and that nothing of it is kept."""

from typing import Final

from tests.mutants.machine import Mutant

_JUDGED: Final = "tests/unit/writer_trial/test_judged.py"
_DOOR: Final = "tests/unit/writer_trial/test_door.py"
_REPORT: Final = "trial/report.py"
_CHECKED: Final = "trial/door.py"
_TRIAL: Final = "tests/unit/writer_trial/test_trial.py"
_PRIORITY: Final = "tests/unit/writer_trial/test_priority.py::test_"
_CHANGES: Final = "tests/integration/trial/test_changes.py::test_"

TRIALS: Final = (
    Mutant(
        "that an event newly fails only if it landed",
        "trial/judged.py",
        "if old.lands(e) and _fails_beyond",
        "if _fails_beyond",
        _JUDGED,
    ),
    Mutant(
        "that an event newly passes only if it lands",
        "trial/judged.py",
        "new.lands(e) and _fails_beyond",
        "_fails_beyond",
        _JUDGED,
    ),
    Mutant(
        "that it did not fail there before",
        "trial/judged.py",
        "one.fails_at(event) - other.fails_at(event) -",
        "one.fails_at(event) -",
        _JUDGED,
    ),
    Mutant(
        "that what was not tried proves nothing",
        "trial/judged.py",
        " - other.untried.get(event, set()))",
        ")",
        _JUDGED,
    ),
    Mutant("each side's own schema", _CHECKED, "for side in sides:\n", "for side in (0,):\n", _DOOR),
    Mutant("the names that are refused", _CHECKED, "if side.refuses_unknown and", "if False and", _DOOR),
    Mutant("sizes", _CHECKED, "elif of_type.max_bytes is not None:", "elif False:", _DOOR),
    Mutant("the bound of reasons", "trial/tally.py", "or len(counted) < _MOST_REASONS", "or True", _TRIAL),
    Mutant("the bound of names", "trial/tally.py", "and len(self.types) >= _MOST_TYPES", "and False", _TRIAL),
    Mutant(
        "that no moment is to come",
        "trial/moments.py",
        "if at.timestamp() > now:",
        "if False:",
        _TRIAL,
    ),
    Mutant(
        "that an empty window is told",
        _REPORT,
        "if not self.tally.types:",
        "if False:",
        _TRIAL,
    ),
    Mutant(
        "what is only text to a terminal",
        _REPORT,
        "c if c.isprintable() else",
        "c if True else",
        _TRIAL,
    ),
)
TRIALS_ON_KAFKA: Final = (
    Mutant(
        "that a copy's default takes no next value",
        "trial/copies.py",
        "        if defaults:\n",
        "        if False:\n",
        f"{_CHANGES}nothing_is_written_not_even_a_sequence_s_next_value",
    ),
    Mutant(
        "the columns that apply would add",
        "trial/copies.py",
        "for each in variant.adds if each.name not in there",
        "for each in ()",
        f"{_CHANGES}the_columns_that_apply_would_add_are_there_for_the_new_rules",
    ),
    Mutant(
        "that one database that is out is one",
        "trial/trial.py",
        "        return Survey(out=e.detail)\n",
        "        raise\n",
        f"{_CHANGES}a_database_that_is_out_is_said_and_the_rest_goes_on",
    ),
    Mutant(
        "that a table that is locked is one",
        "trial/task.py",
        "        except psycopg2.Error as e:\n",
        "        except ZeroDivisionError as e:\n",
        f"{_CHANGES}a_table_that_is_locked_is_said_and_the_rest_goes_on",
    ),
    Mutant(
        "what a role lacks",
        "trial/rights.py",
        "    if not missing:\n",
        "    if True:\n",
        f"{_CHANGES}a_role_that_may_only_read_is_told_what_it_lacks",
    ),
    Mutant(
        "the ranges that are read when one is gone",
        "trial/task.py",
        "    except (RangeUnreadableError, CorruptBatchError):\n        for",
        "    except ZeroDivisionError:\n        for",
        f"{_CHANGES}a_range_that_kafka_deletes_meanwhile_is_said_and_the_rest_is_read",
    ),
    Mutant(
        "that retention is told",
        "kafka/history.py",
        "if 0 < r.start == spans[r.partition][0] and",
        "if False and",
        f"{_CHANGES}the_window_is_what_was_asked_for_as_far_as_kafka_holds_it",
    ),
    Mutant(
        "masks on samples",
        "trial/task.py",
        "masked(chunk.value(place), self._order.personal.get(name, ()))",
        "(chunk.value(place) or b'').decode()",
        f"{_CHANGES}five_samples_are_shown_and_no_value_of_them",
    ),
    Mutant(
        "that personal fields reach the samples",
        "trial/trial.py",
        "        personal=_personal(old, new),\n",
        "",
        f"{_CHANGES}five_samples_are_shown_and_no_value_of_them",
    ),
    Mutant(
        "that no lock outlives its batch",
        "trial/task.py",
        "                databases.drop()\n",
        "",
        f"{_CHANGES}neither_lock_nor_copy_is_left_while_kafka_is_waited_for",
    ),
    Mutant(
        "that the registry's topic is not made",
        "trial/trial.py",
        'kafka.model_copy(update={"create_topics": False})',
        "kafka",
        f"{_CHANGES}the_registry_in_kafka_is_what_is_in_force",
    ),
    Mutant(
        "that a copy is undone",
        "trial/copies.py",
        "            self._conn.rollback()\n        except",
        "            self._conn.commit()\n        except",
        f"{_CHANGES}neither_lock_nor_copy_is_left_while_kafka_is_waited_for",
    ),
    Mutant(
        "that it comes last",
        "trial/priority.py",
        "    come_last()\n",
        "",
        f"{_PRIORITY}it_has_the_lower_priority_as_a_program_and_as_a_session",
    ),
    Mutant(
        "that it ends with whoever began it",
        "trial/priority.py",
        "    threading.Thread(target=_end_with, args=(lives,), daemon=True).start()\n",
        "",
        f"{_PRIORITY}it_ends_with_whoever_began_it",
    ),
)
