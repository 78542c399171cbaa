"""`python -m tests.mutants.gateway`: the gateway's protections, and the tests that hold each."""

from functools import partial
from typing import Final

from tests.mutants import gateway_kafka as kafka
from tests.mutants.gateway_closed import CLOSED
from tests.mutants.gateway_connections import CONNECTIONS
from tests.mutants.gateway_held import HELD
from tests.mutants.gateway_networks import NETWORKS
from tests.mutants.gateway_seen import SEEN
from tests.mutants.machine import Mutant as AnyMutant
from tests.mutants.machine import run

UNIT: Final = "tests/unit/ingest"
SENDERS: Final = "tests/unit/ingest/test_senders.py"
STEPS: Final = "tests/unit/ingest/test_steps.py"
WATCH: Final = "tests/unit/ingest/test_registry_watch.py"
HOLD: Final = "tests/unit/ingest/test_loop_hold.py"
PIECES: Final = "tests/unit/ingest/test_slices.py"
COUNTED: Final = "tests/unit/ingest/test_many_faults.py"
UNREAD: Final = "tests/integration/ingest/test_unread_answers.py"
PIPELINES: Final = "tests/integration/ingest/test_pipelines.py"
READINESS: Final = "tests/integration/ingest/test_readiness.py"
BAD_INPUT: Final = "tests/integration/ingest/test_bad_input.py"
KAFKA: Final = "tests/integration/ingest/test_gateway_kafka.py"
TALLIES: Final = "tests/unit/ingest/test_tallies.py"
FLOODS: Final = "tests/integration/loadtest/test_floods.py"
CYCLE: Final = "tests/unit/ingest/test_cycle.py"
Mutant = partial(AnyMutant, tests=UNIT)

QUICK: Final = (
    Mutant("counting what is shown", "observe/page.py", '"""\n    fold_tallies()', '"""', tests=TALLIES),
    Mutant("counting once", "observe/tallies.py", "self._counts = kept", "pass", tests=TALLIES),
    Mutant(
        "counting values once",
        "observe/tallies.py",
        "# noqa: SLF001\n        self._counts = [0] * len(self._bounds)",
        "",
        tests=TALLIES,
    ),
    Mutant(
        "an answer that breaks off",
        "http/request_cycle.py",
        "self._flush()\n        self._transport.close()",
        "self._transport.close()",
        tests=CYCLE,
    ),
    Mutant(
        "waiting for the acknowledgement",
        "accept.py",
        "outcomes = await sink.send([item.record for item in routed if item.record is not None])",
        "from services.ingest.sink import Receipt; outcomes = [Receipt('t', 0, 0) for _ in routed]",
    ),
    Mutant(
        "the producer's own bytes",
        "decode/decode.py",
        "Item(bytes(raw), document)",
        "Item(str(document).encode(), document)",
    ),
    Mutant(
        "parsing a bad batch item by item",
        "decode/decode.py",
        "slices = _split(body, limits, error)",
        "raise error",
    ),
    Mutant(
        "the separator between lines",
        "decode/decode.py",
        "documents[1::2] == [separator] * (len(values) - 1)",
        "len(documents) == 2 * len(values) - 1",
    ),
    Mutant(
        "the step of a rejected request", "http/endpoint.py", "error.at(request.step)", "pass", tests=STEPS
    ),
    Mutant("the step of a rejected event", "accept.py", "outcome.at(Step.SEND)", "pass", tests=STEPS),
    Mutant(
        "what an unforeseen fault surely did not do",
        "http/endpoint.py",
        ".surely(accepted=False)",
        "",
        tests=STEPS,
    ),
    Mutant("not knowing what was sent", "send/partition_queue.py", "not batch.is_sent and", "", tests=STEPS),
    Mutant(
        "not knowing what is sent for others",
        "send/partition_queue.py",
        "all(slice_.future.done() or slice_ in late for slice_ in batch.slices)",
        "True",
        tests=STEPS,
    ),
    Mutant(
        "a topic's unforeseen fault",
        "send/kafka_sink.py",
        "except Exception:",
        "except KeyError:",
        tests=STEPS,
    ),
    Mutant(
        "counting before splitting",
        "decode/array_items.py",
        "while len(slices) <= max_items:",
        "while True:",
        tests=HOLD,
    ),
    Mutant("the length of a piece", "decode/array_items.py", "{1,1000}+|", "++|", tests=PIECES),
    Mutant("letting documents go", "route.py", "        item.document = None\n", "", tests=PIECES),
    Mutant(
        "the bytes of what cannot be read",
        "accept.py",
        "    request.sender.quota.charge(0, len(body))",
        "    ",
        tests=SENDERS,
    ),
    Mutant(
        "what a parser may see", "decode/decode.py", "if len(body) > _PIECE_BYTES:", "if False:", tests=HOLD
    ),
    Mutant(
        "faults that are told",
        "check/json_schema.py",
        "if reported.faults >= MOST_REPORTED:",
        "if False:",
        tests=COUNTED,
    ),
    Mutant("problems in full", "http/answer.py", "in_full=left > 0", "in_full=True", tests=COUNTED),
    Mutant(
        "the bound of requests that wait on a connection",
        "http/protocol_limits.py",
        "if len(self.pipeline) >= _MOST_WAITING:",
        "if False:",
        tests="tests/integration/ingest/test_pipelines.py",
    ),
    Mutant(
        "the answer to a half-closed client",
        "http/protocol_limits.py",
        "return self._half_closed",
        "return False",
        tests=BAD_INPUT,
    ),
    Mutant("the registry's watcher", "app.py", "            looking = None\n", "", tests=WATCH),
    Mutant(
        "reading the registry off the loop",
        "app.py",
        "asyncio.to_thread(registry.refresh)",
        "asyncio.sleep(0, registry.refresh())",
        tests=WATCH,
    ),
    Mutant(
        "compiling schemas off the loop",
        "check/json_schema.py",
        "return next((each for each in kept if each.snapshot is snapshot), None) or Schemas(snapshot)",
        "return Schemas(snapshot)",
        tests=WATCH,
    ),
    Mutant(
        "compiling what changed alone",
        "check/json_schema.py",
        "(Schemas(snapshot, *last), *last)",
        "(Schemas(snapshot), *last)",
        tests=WATCH,
    ),
    Mutant(
        "the compiled schemas in force while the next are read",
        "check/json_schema.py",
        "(Schemas(snapshot, *last), *last)",
        "(Schemas(snapshot, *last),)",
        tests=WATCH,
    ),
    Mutant(
        "schemas that differ although Python calls them equal",
        "check/json_schema.py",
        "text = orjson.dumps(event_type.json_schema)",
        "text: Any = repr(event_type.json_schema).replace('False', '0').replace('True', '1')",
        tests=WATCH,
    ),
    Mutant(
        "the limit of a batch",
        "decode/decode.py",
        "if count > limits.max_batch:",
        "if False:",
        tests=BAD_INPUT,
    ),
    Mutant("the byte budget", "send/byte_budget.py", "if self.held + size > self.limit:", "if False:"),
    Mutant("giving the budget back", "http/body.py", "self._budget.release(self._reserved)", "pass"),
    Mutant("counting answers", "http/body.py", "self._budget.add(size)", "size = 0", tests=UNREAD),
    Mutant(
        "giving back bodies", "http/endpoint.py", "body.hold_answer(len(response.body))", "pass", tests=UNREAD
    ),
    Mutant("room for answers", "http/body.py", "events * _RESULT_BYTES", "0", tests=UNREAD),
    Mutant("waiting for readers", "asgi.py", "len(self.body) > _BUFFERED", "False", tests=UNREAD),
    Mutant(
        "the time for readers",
        "http/protocol_limits.py",
        "super().pause_writing()\n        self._start_write_timer()",
        "super().pause_writing()",
        tests=UNREAD,
    ),
    Mutant(
        "the time after an answer",
        "http/protocol_limits.py",
        "if self.transport.is_closing():\n            self._start_write_timer()",
        "pass",
        tests=UNREAD,
    ),
    Mutant(
        "the time after keep-alive",
        "http/protocol_limits.py",
        "super().timeout_keep_alive_handler()\n        self._start_write_timer()",
        "super().timeout_keep_alive_handler()",
        tests=UNREAD,
    ),
    Mutant(
        "the time after a rejection",
        "http/protocol_limits.py",
        "self.transport.close()\n        self._start_write_timer()",
        "self.transport.close()",
        tests=UNREAD,
    ),
    Mutant(
        "who left while another waits in line",
        "http/protocol_limits.py",
        "self._answering.disconnected = True",
        "pass",
        tests=UNREAD,
    ),
    Mutant(
        "answering in turn",
        "http/protocol_limits.py",
        "if not self._must_answer_before(reading):",
        "if True:",
        tests=PIPELINES,
    ),
    Mutant(
        "taking a broken request out of the line",
        "http/protocol_limits.py",
        "self.pipeline.remove(waiting)",
        "pass",
        tests=PIPELINES,
    ),
    Mutant(
        "hearing nothing after a rejection",
        "http/protocol_limits.py",
        "return self._rejection is not None or self.transport.is_closing()",
        "return self.transport.is_closing()",
        tests=PIPELINES,
    ),
    Mutant(
        "one answer to one request",
        "http/protocol_limits.py",
        "reading is not None and reading.response_started",
        "False",
        tests=PIPELINES,
    ),
    Mutant(
        "one question for all probes",
        "send/kafka_sink.py",
        "if self._health_check is None or self._health_check.done():",
        "if True:",
        tests=READINESS,
    ),
    Mutant(
        "a probe that leaves alone",
        "send/kafka_sink.py",
        "await asyncio.shield(self._health_check)",
        "await self._health_check",
        tests=READINESS,
    ),
    Mutant("the cap of the body", "http/body.py", "if size > self._max_bytes:", "if False:", tests=BAD_INPUT),
    Mutant(
        "the cap of inflation",
        "http/content_encoding.py",
        "if self.size > self._max_bytes:",
        "if False:",
        tests=BAD_INPUT,
    ),
    Mutant(
        "noticing a cut-off stream",
        "http/content_encoding.py",
        "if not self._codec.eof:",
        "if False:",
        tests=BAD_INPUT,
    ),
    Mutant(
        "closing after an unread body",
        "http/endpoint.py",
        "if not body.read_whole:",
        "if False:",
        tests=BAD_INPUT,
    ),
    Mutant(
        "the limit of depth",
        "check/check.py",
        "strict_json.check_depth(item.value, item.document)",
        "pass",
        tests=BAD_INPUT,
    ),
    Mutant(
        "the limit of an event",
        "check/check.py",
        "if size > self._max_event_bytes:",
        "if False:",
        tests="tests/unit/ingest/test_steps.py",
    ),
    Mutant("reserved names", "check/check.py", "if wire.is_reserved(name):", "if False:"),
    Mutant("grants of event names", "check/check.py", "not sender.key.may_send(name)", "False"),
    Mutant(
        "names that nobody registered",
        "check/check.py",
        'if event_type is None and snapshot.unknown_names == "refuse":',
        "if False:",
        tests="tests/unit/ingest/test_event_types.py",
    ),
    Mutant("grants of destinations", "check/check.py", "not key.may_address(destination)", "False"),
    Mutant(
        "JSON Schemas", "check/check.py", "self._schemas.check(name, item.document, size, reported)", "pass"
    ),
    Mutant(
        "following the registry", "check/check.py", "if snapshot is not self._schemas.snapshot:", "if False:"
    ),
    Mutant("the cap of names", "auth/new_names.py", "if len(used) >= limit:", "if False:"),
    Mutant("comparing secrets", "auth/api_keys.py", "or not any(matches)", "or not matches"),
    Mutant(
        "an empty key",
        "settings.py",
        'if "dev_key" in self.model_fields_set and',
        "if False and",
        tests=SENDERS,
    ),
    Mutant("silence of errors", "settings.py", ", hide_input_in_errors=True", "", tests=SENDERS),
    Mutant(
        "one key only",
        "auth/api_keys.py",
        "if len(authorizations) != 1:",
        "if not authorizations:",
        tests=UNIT,
    ),
    Mutant("quotas", "auth/quotas.py", "if delay > 0:", "if False:"),
    Mutant("the list of origins", "http/cors.py", "if origin not in self._origins:", "if False:"),
    Mutant(
        "the size of headers",
        "http/protocol_limits.py",
        "if self._header_bytes > self._max_header_bytes:",
        "if False:",
        tests=BAD_INPUT,
    ),
    Mutant(
        "the host", "http/protocol_limits.py", "or not _HOST.fullmatch(value)", "or False", tests=BAD_INPUT
    ),
    Mutant(
        "the clock of slow requests",
        "http/protocol_limits.py",
        "if self._incomplete and not self._is_closing:",
        "if False:",
        tests=BAD_INPUT,
    ),
    Mutant(
        "the bound of the syslog queue",
        "syslog/listener.py",
        "> self._settings.syslog_queue_bytes:",
        "> 10**12:",
    ),
    *NETWORKS,
    *CLOSED,
    *HELD,
    *CONNECTIONS,
    *SEEN,
)

SLOW: Final = (
    Mutant("returning large blocks", "app.py", "    return_large_blocks()\n", "", tests=FLOODS),
    Mutant(
        "our own deadline", "send/kafka_sink.py", "if self._expire(monotonic()):", "if False:", tests=KAFKA
    ),
    Mutant(
        "replacing a wedged producer",
        "send/partition_queue.py",
        "self._producers.replace(instance,",
        "(lambda *_: None)(instance,",
        tests=KAFKA,
    ),
    Mutant(
        "rejecting unsafe topics",
        "send/kafka_topics.py",
        "        detail = self._unsafe(topic, config)\n",
        "        detail = None\n",
        tests=KAFKA,
    ),
    Mutant(
        "knowing the topic's limit",
        "send/kafka_sink.py",
        "if len(record.value) + len(key) > room:",
        "if False:",
        tests=KAFKA,
    ),
    Mutant(
        "a success at SIGTERM",
        "__main__.py",
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))",
        "pass",
        tests=KAFKA,
    ),
)

if __name__ == "__main__":
    run("services/ingest", (*QUICK, *kafka.QUICK), (*SLOW, *kafka.SLOW))
