"""The protections that keep one record from stopping its neighbours."""

from typing import Final

from tests.mutants.machine import Mutant

NUMBERS: Final = "tests/unit/writer/test_numbers.py"
FOREIGN: Final = "tests/faults/test_f46_foreign_records.py"
_ASIDE: Final = "tests/faults/test_f46_set_aside.py::test_f46_"
_HALVING: Final = "tests/unit/writer/test_halving.py"

RECORDS: Final = (
    Mutant(
        "parking a record whose headers nobody reads",
        "sort/sort.py",
        "if not pc.any(large).as_py():",
        "if True:",
        "tests/unit/writer/test_sort.py",
    ),
    Mutant(
        "an exponent of any length",
        "columns/json_to_text.py",
        "int(digits) if len(digits) <= _EXPONENT_DIGITS else 10**_EXPONENT_DIGITS",
        "int(digits)",
        NUMBERS,
    ),
    Mutant(
        "the count of what passed, where the verdict is no",
        "model/halving.py",
        "        seen = self._passed + Counter(passed)\n",
        "        self.passed(passed)\n        seen = self._passed\n",
        _HALVING,
    ),
    Mutant(
        "what a poll had taken beside a record that cannot be read",
        "../../shared/polling.py",
        "            consumer.seek(partition, position)\n",
        "            pass\n",
        "tests/unit/shared/test_polling.py",
    ),
    Mutant(
        "a bound of how many of a topic are found at fault",
        "model/halving.py",
        "_LEAST: Final = 5",
        "_LEAST: Final = 50_000",
        _HALVING,
    ),
    Mutant(
        "a bound of how many of all are found at fault",
        "model/halving.py",
        "_LEAST_OF_ALL: Final = 20",
        "_LEAST_OF_ALL: Final = 50_000",
        _HALVING,
    ),
    Mutant(
        "judging a topic by its own events",
        "model/halving.py",
        "known[of] > _LEAST + seen[of] //",
        "len(together) > _LEAST + seen[of] //",
        _HALVING,
    ),
    Mutant(
        "forgetting topics that are made up",
        "model/halving.py",
        " for of, n in self._passed.items() if n > 1}",
        " for of, n in self._passed.items()}",
        _HALVING,
    ),
)

_LARGE: Final = "tests/faults/test_f46_too_large.py::test_f46_"
_OUTBOX: Final = f"{_LARGE}parked_events_that_are_too_large_stay_in_the_outbox_and_the_others_leave_it"
_NOWHERE: Final = f"{_LARGE}an_unroutable_event_that_is_too_large_is_kept_in_a_database_and_the_others_land"
_DIVERTED: Final = f"{_LARGE}a_diverted_event_that_is_too_large_holds_its_partition_and_no_other"
UNFORESEEN: Final = "tests/faults/test_f46_unforeseen.py"
_STEPS: Final = f"{UNFORESEEN}::test_f46_one_record_at_which_a_step_raises_stops_nobody"

STRICTER: Final = "tests/faults/test_stricter_rules.py"

#: With Spark, or a Kafka of their own.
FOREIGNERS: Final = (
    Mutant(
        "what waited and is sorted to its database no more, parked",
        "recover/drain.py",
        "        task.collect_strays(database)\n",
        "",
        f"{STRICTER}::test_an_event_that_is_refused_when_it_drains_is_parked_for_its_database",
    ),
    Mutant(
        "what waited and reads as no event any more, parked",
        "recover/release.py",
        "            settlement.park_all(target, table, error)\n",
        "            raise error\n",
        f"{STRICTER}::test_an_event_that_is_refused_when_it_is_released_is_parked_and_the_others_land",
    ),
    Mutant(
        "a place at which a release fails, alone",
        "recover/release.py",
        "                self._drain_or_pass_over(table,",
        "                self._drain(table,",
        f"{STRICTER}::test_a_place_at_which_a_release_fails_waits_alone",
    ),
    Mutant(
        "saying how many parked events do not leave their database",
        "observe/database_stats.py",
        "outbox.too_large(conn, database.name)",
        "0",
        _OUTBOX,
    ),
    Mutant(
        "an event that cannot be sorted, alone",
        "settle/task.py",
        "        for part, verdict in sort_one_by_one(self.filter_and_sort, read):",
        "        for part, verdict in self.filter_and_sort(read) or ():",
        f"{_STEPS}[sort]",
    ),
    Mutant(
        "an event that cannot be persisted, alone",
        "settle/task.py",
        "one_by_one.add(e.target)",
        "blocked[e.target] = None",
        f"{_STEPS}[persist]",
    ),
    Mutant(
        "an event that cannot be released, alone",
        "settle/settlement.py",
        "result = self._persist(target, rows, one_by_one=True)",
        "result = self._persist(target, rows, one_by_one=False)",
        f"{_STEPS}[release-persist]",
    ),
    Mutant(
        "what fails when it drains, and harms its database alone",
        "recover/drain.py",
        "in_own_thread(self._land_or_wait,",
        "in_own_thread(self._land,",
        f"{_STEPS}[drain-sort]",
    ),
    Mutant(
        "a bug at one database's return, which is no other's matter",
        "recover/databases.py",
        "        if is_foreseen(error) or not isinstance(error, Exception):\n",
        "        if True:\n",
        "tests/faults/test_f46_returns.py",
    ),
    Mutant(
        "a hold that comes while a look is under way",
        "recover/release_scheduler.py",
        "bool(left) or releases.missed",
        "bool(left)",
        f"{UNFORESEEN}::test_f46_a_table_at_which_every_event_raises_waits_and_nothing_is_parked",
    ),
    Mutant(
        "foreign records on onramp.settled",
        "partitions/plan_log.py",
        "            return False\n",
        "            raise\n",
        FOREIGN,
    ),
    Mutant(
        "the others of a batch that fails",
        "driver/batch.py",
        "        await _write_apart(parts, ranges, routes)\n",
        "        raise\n",
        f"{_STEPS}[keep]",
    ),
    Mutant(
        "the routes of a range that is set aside",
        "driver/batch.py",
        "in parts.plan_log.set_aside_entries(parts.epoch, f.range, routes)\n",
        "in ()\n",
        f"{_ASIDE}what_was_set_aside_is_finished_under_the_routes_it_began_with_by_a_successor",
    ),
    Mutant(
        "what lies before the record",
        "partitions/set_aside.py",
        "while end - start > 1:",
        "while False:",
        f"{_STEPS}[park]",
    ),
    Mutant(
        "setting aside what fails alone",
        "driver/batch.py",
        "if not passed and not settle_again:",
        "if not passed:",
        f"{_ASIDE}a_partition_that_fails_alone_is_set_aside_after_the_loop_was_begun_again",
    ),
    Mutant(
        "another try of what was set aside",
        "driver/partition_tracker.py",
        "        self._retry_set_aside()\n",
        "",
        f"{_STEPS}[report]",
    ),
    Mutant(
        "a halt of what was begun under routes that are lost",
        "driver/partition_tracker.py",
        "self._plan_log.missing_routes(p, position)",
        "set()",
        f"{_ASIDE}a_plan_whose_routes_nobody_has_halts_its_partition_until_a_person_says_go_on",
    ),
    Mutant(
        "foreign records on onramp.writers", "kafka/cluster.py", "if _is_entry(record):", "if True:", FOREIGN
    ),
    Mutant(
        "foreign records on onramp.system_errors",
        "park/diverted_topic.py",
        "    except UNREADABLE:",
        "    except KeyError:",
        FOREIGN,
    ),
    Mutant(
        "a refusal of one record, told from an outage",
        "kafka/producer.py",
        "    except _TOO_LARGE:\n",
        "    except ():\n",
        f"{_OUTBOX} {_NOWHERE} {_DIVERTED}",
    ),
    Mutant(
        "what is too large for a diversion, set aside",
        "kafka/producer.py",
        " and not is_too_large(error)",
        "",
        _DIVERTED,
    ),
    Mutant(
        "the others of a relay of which one is too large",
        "park/parked_topic.py",
        "            rejected = e\n",
        "            raise\n",
        _OUTBOX,
    ),
    Mutant(
        "what is too large, left in the outbox",
        "park/outbox.py",
        "{r.key for r in left.records} if left else set()",
        "set()",
        _OUTBOX,
    ),
    Mutant(
        "what goes nowhere and is too large, kept in a database",
        "settle/without_target.py",
        "                outbox.add(",
        "                _ = (",
        _NOWHERE,
    ),
    Mutant(
        "a limit that an older release set, raised",
        "kafka/own_topics.py",
        " or (name, is_) in OUTGROWN",
        "",
        "tests/faults/test_own_topics.py::test_f49_what_an_older_release_set_or_left_to_the_broker_is_set",
    ),
)
