"""The protections from a Kafka whose log goes back, and of what is looked after by the clock."""

from typing import Final

from tests.mutants.machine import Mutant

_ACCEPTED: Final = "tests/unit/writer/test_accepted_again.py"
_ANY_BROKER: Final = "tests/unit/writer/test_any_broker.py"
_BROKERS: Final = "tests/faults/test_lost_brokers.py"
_CUTS: Final = "tests/unit/writer/test_cuts.py"
_GROUP_OFFSETS: Final = "tests/unit/shared/test_kafka_group_offsets.py"
_LEADERS: Final = "tests/unit/writer/test_leaders.py"
_LOGS: Final = "tests/faults/test_cut_logs.py::test_f44_"
_OWN: Final = "tests/faults/test_own_topics.py::test_f49_"
_POSITIONS: Final = "tests/unit/writer/test_positions.py"
_SETTLED: Final = "tests/unit/writer/test_settled.py"
_TOPICS: Final = "tests/faults/test_topics.py::test_f16_"
_UPKEEP: Final = "tests/faults/test_upkeep.py::test_"

#: Quick.
CUTS: Final = (
    Mutant(
        "a leader that is new is doubted",
        "recover/log_cuts.py",
        "self._intact.get(p) != tip.epoch or tip.offset < position.next_offset",
        "tip.offset < position.next_offset",
        _CUTS,
    ),
    Mutant(
        "an end below what is settled is doubted",
        "recover/log_cuts.py",
        "self._intact.get(p) != tip.epoch or tip.offset < position.next_offset",
        "self._plan_log.leaders.get(_key(p, position), tip.epoch) != tip.epoch",
        _CUTS,
    ),
    Mutant(
        "the epoch that the settled was planned under",
        "recover/log_cuts.py",
        "self._plan_log.leaders.get(_key(p, s), tips[p].epoch) for",
        "tips[p].epoch for",
        _CUTS,
    ),
    Mutant(
        "the furthest that anything says is settled",
        "recover/log_cuts.py",
        "reached[p] < self._highest_known(p, position)",
        "reached[p] < position.next_offset",
        _CUTS,
    ),
    Mutant(
        "no leader's epoch of a log that was cut",
        "recover/log_cuts.py",
        "return p in tips and self._intact.get(p) == tips[p].epoch",
        "return p in tips and p in self._intact",
        _CUTS,
    ),
    Mutant(
        "no plan while a cut cannot be told",
        "recover/log_cuts.py",
        "                del tips[p]\n",
        "                pass\n",
        _CUTS,
    ),
    Mutant(
        "a setting of our own topics that is less",
        "kafka/own_topics.py",
        "        if is_ != must and not enough:\n",
        "        if is_ != must and name not in _AT_LEAST:\n",
        "tests/unit/writer/test_own_topics.py",
    ),
    Mutant(
        "an epoch that no leader knows puts nothing back",
        "recover/log_cuts.py",
        "cuts[p] = min(tips[p].offset, position.next_offset)",
        "cuts[p] = max(reached[p], 0)",
        f"{_CUTS} {_ACCEPTED}",
    ),
    Mutant(
        "saying that nobody knows the epoch",
        "recover/log_cuts.py",
        "        if p in self._unknown:\n",
        "        if False:\n",
        f"{_CUTS} {_ACCEPTED}",
    ),
    Mutant(
        "going on from the stand where a better replica leads",
        "driver/partition_tracker.py",
        "intact_to = min(cuts.get(p, position.next_offset), position.next_offset)",
        "intact_to = cuts.get(p, position.next_offset)",
        _ACCEPTED,
    ),
    Mutant(
        "a begin before a partition goes on",
        "driver/partition_tracker.py",
        "            if p not in begins or p not in tips or",
        "            begins.setdefault(p, 0)\n            if p not in tips or",
        _ACCEPTED,
    ),
    Mutant(
        "leaving out what a leader cannot say",
        "kafka/leaders.py",
        "                    self._log_error(Partition(topic, number), code)\n",
        "                    raise for_code(code)\n",
        _LEADERS,
    ),
    Mutant(
        "saying what somebody may have to mend",
        "kafka/leaders.py",
        "        self._logged[p] = code\n",
        "        return\n",
        _LEADERS,
    ),
    Mutant(
        "no patience with a frozen broker",
        "kafka/leaders.py",
        ", request_timeout_ms=_BROKER_MS)",
        ")",
        _LEADERS,
    ),
    Mutant(
        "no more patience for a look than for a plan",
        "kafka/leaders.py",
        "            if responses or not sent or not patient:\n",
        "            if responses or not sent:\n",
        _LEADERS,
    ),
    Mutant(
        "a look at own topics while a broker is away",
        "kafka/own_topics.py",
        "        except (KafkaError, TimeoutError) as e:\n",
        "        except ZeroDivisionError as e:\n",
        "tests/unit/writer/test_own_topics.py",
    ),
    Mutant(
        "deep records that are not Onramp's",
        "partitions/plan_log.py",
        "        except UNREADABLE:\n",
        "        except (ValueError, IndexError):\n",
        _SETTLED,
    ),
    Mutant(
        "forgetting a writer's plan when its next one is read",
        "partitions/plan_log.py",
        "            self._planned[r.partition, r.topic_id].pop(epoch, None)\n",
        "            pass\n",
        _SETTLED,
    ),
    Mutant(
        "asking another broker than one that is gone or silent",
        "kafka/any_broker.py",
        "                except _UNANSWERED as e:\n",
        "                except ZeroDivisionError as e:\n",
        _ANY_BROKER,
    ),
    Mutant(
        "no patience with a broker that is frozen",
        "kafka/any_broker.py",
        "        async with asyncio.timeout(seconds):\n",
        "        async with asyncio.timeout(None):\n",
        _ANY_BROKER,
    ),
    Mutant(
        "who must be known and is not, named",
        "kafka/cluster.py",
        "            if time.monotonic() >= until:\n",
        "            if False:\n",
        _POSITIONS,
    ),
    Mutant(
        "the end of an own topic with what is not committed",
        "kafka/leaders.py",
        "isolation=_READ_UNCOMMITTED",
        "isolation=_READ_COMMITTED",
        _LEADERS,
    ),
    Mutant(
        "those that were silent, last",
        "kafka/any_broker.py",
        "key=self._silent.__contains__",
        "key=bool",
        _ANY_BROKER,
    ),
    Mutant(
        "patience with a coordinator that is not ready",
        "../../shared/kafka_group_offsets.py",
        "if time.monotonic() >= until:",
        "if True:",
        _GROUP_OFFSETS,
    ),
    Mutant(
        "the error of an answer without offsets",
        "../../shared/kafka_group_offsets.py",
        'if node_id is not None and (code := getattr(answer, "error_code", 0)):',
        "if code := 0:",
        _GROUP_OFFSETS,
    ),
    Mutant(
        "a look at the group's offsets while their coordinator is away",
        "kafka/cluster.py",
        "        except (KafkaError, TimeoutError) as e:\n",
        "        except ZeroDivisionError as e:\n",
        _POSITIONS,
    ),
    Mutant(
        "a word is about one halt",
        "partitions/partition_halts.py",
        " and decision.halt == halt.id else None",
        " else None",
        "tests/unit/writer/test_lines.py",
    ),
    Mutant(
        "a zombie's line is not the last",
        "partitions/partition_halts.py",
        "if known is None or known.epoch <= accepted.epoch:",
        "if True:",
        "tests/unit/writer/test_lines.py",
    ),
)

#: Each has a Kafka of its own, or a gateway.
LOGS: Final = (
    Mutant(
        "adopting what no leader says the begin of",
        "driver/partition_tracker.py",
        "        self._leaderless = new - begins.keys()  # asked",
        "        begins = dict.fromkeys(new, 0) | begins  # asked",
        _BROKERS,
    ),
    Mutant(
        "trimming where leaders answer",
        "kafka/cluster.py",
        "        young = await self._leaders.since(ends, when)\n",
        "        young = await self._leaders.since(ends, when)\n"
        "        await self._looker.end_offsets([TopicPartition(*p) for p in partitions])\n",
        f"{_BROKERS}::test_who_must_know_what_waits_says_which_partition_has_no_leader",
    ),
    Mutant(
        "begins of those whose leaders answer",
        "kafka/cluster.py",
        "        return await self._leaders.beginning_offsets(partitions)\n",
        "        places = [TopicPartition(*p) for p in partitions]\n"
        "        found = await self._consumer.beginning_offsets(places)\n"
        "        return {Partition(*p): o for p, o in found.items()}\n",
        _BROKERS,
    ),
    Mutant(
        "halting what was cut",
        "driver/partition_tracker.py",
        "            if cut <= position.next_offset:  # else",
        "            if False:  # else",
        f"{_LOGS}a_log_that_was_cut_and_filled_again_is_told_by_its_leaders_epoch",
    ),
    Mutant(
        "the leader's epoch on onramp.settled",
        "driver/partition_tracker.py",
        "            await self.record(self._plan_log.leader_entries(epochs))\n",
        "            pass\n",
        f"{_LOGS}a_log_that_was_cut_and_filled_again_is_told_by_its_leaders_epoch",
    ),
    Mutant(
        "the ledgers' word where the group's is lost",
        "recover/diverted_index.py",
        "return max([self._ledgers.get(incarnation, 0), *ends])",
        "return max([0, *ends])",
        f"{_LOGS}with_the_groups_offsets_lost_the_ledger_tells",
    ),
    Mutant(
        "going on when the log is whole again",
        "driver/partition_tracker.py",
        "        await self._resume_restored(ids)\n",
        "",
        f"{_LOGS}a_log_that_is_what_was_settled_again_is_read_on_without_a_word",
    ),
    Mutant(
        "upkeep under load",
        "driver/loop.py",
        "            await self._reconciler.tick()\n",
        "",
        f"{_UPKEEP}a_ledger_that_went_back_is_found_under_load",
    ),
    Mutant(
        "putting back a rewound offset",
        "driver/reconcile.py",
        "        await self._recommit()\n",
        "",
        f"{_UPKEEP}an_offset_that_somebody_rewound_is_put_back_under_load",
    ),
    Mutant(
        "relaying what a drain parked",
        "recover/drain.py",
        "            outbox.relay(database, self._brokers)\n",
        "            pass\n",
        f"{_UPKEEP}what_a_drain_parks_is_relayed_at_once",
    ),
    Mutant(
        "relaying what a release parked",
        "recover/release_scheduler.py",
        "        outbox.relay(self._databases[name], self._brokers)\n",
        "",
        f"{_UPKEEP}what_a_release_parks_is_relayed_at_once",
    ),
    Mutant(
        "refusing own topics that lose what they keep",
        "kafka/own_topics.py",
        "        if wrong := await self.wrong():\n",
        "        if wrong := []:\n",
        f"{_OWN}a_topic_that_would_lose_what_it_keeps_is_refused_until_it_is_mended",
    ),
    Mutant(
        "own topics that are not ours to make",
        "kafka/own_topics.py",
        "if self._settings.create_topics:",
        "if True:",
        f"{_OWN}what_is_missing_and_not_ours_to_make_is_said_with_the_command",
    ),
    Mutant(
        "setting what nobody has set on own topics",
        "kafka/own_topics.py",
        "await self._set_unset()\n",
        "pass\n",
        f"{_OWN}what_an_older_release_set_or_left_to_the_broker_is_set",
    ),
    Mutant(
        "looking at own topics by the clock",
        "driver/reconcile.py",
        "        await self._check_own_topics()\n",
        "",
        f"{_OWN}one_that_is_set_otherwise_under_a_running_writer_is_said_and_stops_nobody",
    ),
    Mutant(
        "another life for what a person accepts",
        "driver/partition_tracker.py",
        "*halts.accept_entries(ids[p.topic], p.number, accepted), ",
        "",
        f"{_LOGS}a_person_lets_it_go_on_from_the_cut_and_what_is_there_lands",
    ),
    Mutant(
        "the baseline of an accepted life",
        "driver/partition_tracker.py",
        "[*baselines, *halts.accept_entries",
        "[*halts.accept_entries",
        f"{_TOPICS}a_person_lets_a_partition_go_on_behind_what_kafka_deleted",
    ),
    Mutant(
        "the incarnation that a group's offset is of",
        "driver/partition_tracker.py",
        "if committed and committed.incarnation == _signature(position, topic_id):",
        "if committed:",
        f"{_LOGS}a_person_lets_it_go_on_from_the_cut_and_what_is_there_lands",
    ),
    Mutant(
        "a client that could not connect is closed",
        "kafka/cluster.py",
        "        try:\n            await consumer.start()\n",
        "        await consumer.start()\n        try:\n",
        _POSITIONS,
    ),
)
