"""How batches leave the gateway: its protections, and the tests that hold each."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant as AnyMutant

STEPS: Final = "tests/unit/ingest/test_steps.py"
SINK: Final = "tests/contract/test_sink.py"
SEND_TIMER: Final = "tests/integration/ingest/test_send_timer.py"
SICK: Final = "tests/integration/ingest/test_sick_topic.py"
CHANGED: Final = "tests/integration/ingest/test_changed_topics.py"
Mutant = partial(AnyMutant, tests="tests/unit/ingest/test_second.py")

QUICK: Final = (
    Mutant(
        "each event's own verdict under a lowered limit",
        "send/kafka_sink.py",
        "if too_large and not self._closed:",
        "if False:",
        tests=CHANGED,
    ),
    Mutant(
        "sequence numbers of what was too large",
        "send/partition_queue.py",
        "            instance.take_back(self.topic, self.partition, batch.count)\n",
        "",
        tests=CHANGED,
    ),
    Mutant(
        "not knowing what a retry that is too large says",
        "send/second_producer.py",
        "if not can_retry and batch.retry_count > 1:",
        "if False:",
        tests=CHANGED,
    ),
    Mutant(
        "order of what is sent again under a lowered limit",
        "send/partition_queue.py",
        "if isinstance(result, BatchTooLargeError):",
        "if False:",
        tests=CHANGED,
    ),
    Mutant(
        "freeing what was sent behind a request that is stuck",
        "send/partition_queue.py",
        "            slice_.batch = None\n",
        "            pass\n",
        tests=f"{SINK}::test_what_was_sent_is_freed_without_looking_for_circles",
    ),
    Mutant(
        "asking one by one for what was refused together",
        "send/kafka_topics.py",
        "elif len(topics) > 1:",
        "elif False:",
        tests="tests/integration/ingest/test_new_topics.py",
    ),
    Mutant("looking again", "send/kafka_sink.py", "        self._topics.start()\n", "", tests=CHANGED),
    Mutant(
        "topics that became unsafe",
        "send/kafka_topics.py",
        "if error is NoError and self._unsafe(topic, config) is None:",
        "if True:",
        tests=CHANGED,
    ),
    Mutant("topics that are gone", "send/second_producer.py", "> _GONE_SECONDS", "> 10**9"),
    Mutant(
        "pauses between questions",
        "send/second_producer.py",
        "await asyncio.sleep(METADATA_PAUSE_SECONDS)",
        "pass",
    ),
    Mutant(
        "leaving a batch that was given up alone",
        "send/partition_queue.py",
        "if batch.slices and batch.slices[-1].future.done() and batch.abandoned:",
        "if False:",
        tests=STEPS,
    ),
    Mutant(
        "batches that grow behind a slow broker",
        "send/kafka_sink.py",
        "            if self._expire(monotonic()):\n",
        "            for queue in self._queues.values():\n                queue.seal()\n"
        "            if self._expire(monotonic()):\n",
        tests=STEPS,
    ),
    Mutant(
        "nobody joining a batch that waits",
        "send/partition_queue.py",
        "                batch.builder.close()\n",
        "                pass\n",
        tests=STEPS,
    ),
    Mutant(
        "waiting for a leader for as long as it takes", "send/second_producer.py", "== NO_LEADER:", "== 0:"
    ),
    Mutant(
        "asking for all leaders at once",
        "send/kafka_producer.py",
        "if now - self._refreshed_at >= METADATA_PAUSE_SECONDS:",
        "if True:",
    ),
    Mutant(
        "moving what lost its leader",
        "send/second_producer.py",
        "self._move_leaderless(accumulator, muted_partitions)",
        "pass",
    ),
)

SLOW: Final = (
    Mutant(
        "the order of batches",
        "send/partition_queue.py",
        "self._send(self._waiting.popleft(), instance)",
        "self._send(self._waiting.pop(), instance)",
        tests=SINK,
    ),
    Mutant(
        "leaving together",
        "send/send_timer.py",
        "due = self._last + self._linger_seconds",
        "due = self._last",
        tests=SEND_TIMER,
    ),
    Mutant("leaving when full", "send/send_timer.py", "if full or due <=", "if due <=", tests=SEND_TIMER),
    Mutant(
        "moving what a partition rejects",
        "send/second_producer.py",
        "        if second is not None:\n",
        "        if second is None:\n",
        tests=SICK,
    ),
    Mutant(
        "waiting for a leader before a batch leaves",
        "send/partition_queue.py",
        "while self._waiting and instance.leaderless(self.topic, self.partition):",
        "while False:",
        tests=SICK,
    ),
    Mutant(
        "moving what lost its leader in the producer",
        "send/second_producer.py",
        "self._move_leaderless(accumulator, muted_partitions)",
        "pass",
        tests=SICK,
    ),
    Mutant(
        "waiting for a partition that rejects",
        "send/kafka_producer.py",
        "not self._second.holds(topic, partition)",
        "self._second.holds(topic, partition)",
        tests=SICK,
    ),
)
