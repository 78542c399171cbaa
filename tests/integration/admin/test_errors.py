"""`onramp errors` on real topics: reasons without values, repeats as one, and no log is read whole."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.parked.records import ErrorEvent
from services.ops.parked.tail import ErrorTail
from shared import wire
from shared.kafka_read.offsets import Range
from shared.kafka_security import Brokers
from tests.fixtures.writer import envelope, event, eventually, records
from tests.integration.admin.admin_service import Admin
from tests.integration.admin.conftest import BAD, Stage

SECRET = b'{"secret":"\\u0000 hunter2"}'


def _run(stage: Stage, verb: str, *arguments: str, database: bool = True) -> Any:
    where = stage.arguments if database else [*stage.arguments[:2], "--data-dir", "/nowhere"]
    return CliRunner().invoke(app, ["errors", verb, *arguments, *where])


def _ask(admin: Admin, verb: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["errors", verb, *arguments, "--admin", admin.service.url])


def _tail(stage: Stage, *arguments: str, database: bool = True) -> list[dict[str, Any]]:
    """The JSON of `tail` for the stage's own events; the topics are shared with other tests."""
    said = _run(stage, "tail", "-n", "10000", *arguments, "--json", database=database)
    assert said.exit_code == 0, said.output
    return [found for line in said.stdout.splitlines() if (found := json.loads(line))["event"] == stage.name]


def _counts(admin: Admin, stage: Stage) -> list[tuple[str, str, str, int]]:
    counts = json.loads(_ask(admin, "count", "--json").stdout)
    of = [c for c in counts if c["event_name"] == stage.name]
    return [(c["state"], c["code"], c["destination"], c["events"]) for c in of]


@pytest.fixture
def parked(stage: Stage) -> Stage:
    """One event is parked, and its record was published twice."""
    stage.settle(event("good", stage.name), envelope("bad", stage.name, SECRET))
    [kept] = [
        r for r in records(stage.bootstrap, wire.USER_ERRORS) if r.value and stage.name.encode() in r.value
    ]
    assert kept.key is not None
    assert kept.value is not None
    stage.park(kept.key, kept.value, list(kept.headers.items()))
    return stage


def test_parked_event_is_listed_with_its_reason_and_without_its_value(parked: Stage, admin: Admin) -> None:
    key = f"{parked.partition.topic}/0/1/onramp.{parked.table}"
    said = _run(parked, "tail", "-n", "1000")
    [line] = [line for line in said.output.splitlines() if key in line]
    assert "parked  data_rejected" in line
    assert "hunter2" not in said.output
    [counted] = eventually(lambda: _counts(admin, parked), 120)
    assert counted == ("open", "data_rejected", f"onramp.{parked.table}", 1)
    shown = _ask(admin, "show", key)
    assert "step: persist" in shown.output
    assert "hunter2" not in shown.output


def _kept(admin: Admin, stage: Stage, offset: int) -> str:
    """The key of an event without a destination, once it is stored."""
    place = {"topic": stage.partition.topic, "partition": 0, "offset": offset}
    eventually(lambda: admin.events(**place), 120)
    return f"{stage.partition.topic}/0/{offset}/"


def test_its_value_is_shown_on_request_with_control_characters_escaped(stage: Stage, admin: Admin) -> None:
    key = _kept(admin, stage, stage.settle(b"no json \x1b[2J\xff\n"))
    shown = _ask(admin, "show", key, "--value", "--reason", "x")
    assert "value: no json \\x1b[2J\\xff\\n" in shown.output
    assert "\x1b" not in shown.output
    assert "code: no_envelope" in shown.output


def test_raw_output_is_byte_exact_and_an_event_without_a_value_exits_with_1(
    stage: Stage, admin: Admin
) -> None:
    first = stage.settle(b"no json \x1b[2J\xff\n", None)
    key = _kept(admin, stage, first)
    assert _ask(admin, "show", key, "--raw", "--reason", "x").stdout_bytes == b"no json \x1b[2J\xff\n"
    nothing = _ask(admin, "show", _kept(admin, stage, first + 1), "--raw", "--reason", "x")
    assert (nothing.exit_code, nothing.stdout_bytes) == (1, b"")
    assert "event with a value" in nothing.stderr


def test_repeats_under_one_key_are_one_event(parked: Stage, admin: Admin) -> None:
    assert len(_tail(parked)) == 1
    assert [counted[-1] for counted in eventually(lambda: _counts(admin, parked), 120)] == [1]


@pytest.mark.parametrize(
    "key", ["nothing/0/0/", "nothing", "x/y/z/onramp.events.x", "x/0/9000000000000000000/"]
)
def test_an_unknown_key_is_1(admin: Admin, key: str) -> None:
    said = _ask(admin, "show", key)
    assert (said.exit_code, said.stdout) == (1, "")
    assert "no parked event has this key" in said.stderr


def test_unreachable_kafka_or_admin_service_exits_with_3_and_the_admin_hint_is_printed() -> None:
    said = CliRunner().invoke(app, ["errors", "tail", "--kafka", "127.0.0.1:1", "--data-dir", "/nowhere"])
    assert said.exit_code == 3
    assert "cannot be read" in said.output
    for verb in (["count"], ["show", "x/0/0/"]):
        said = CliRunner().invoke(app, ["errors", *verb, "--admin", "http://127.0.0.1:1"])
        assert said.exit_code == 3
        assert "start it with `onramp admin`" in said.stderr


def test_diverted_events_wait_until_the_ledger_has_passed_them(stage: Stage) -> None:
    stage.settle(event("good", stage.name))
    stage.settle(event("later", stage.name), divert=True)
    assert [e["state"] for e in _tail(stage, "--kind", "waiting")] == ["waiting"]
    assert [e["state"] for e in _tail(stage, database=False)] == ["diverted"]
    stage.execute("UPDATE onramp.ledger SET next_offset = 2")
    assert _tail(stage) == []


def test_a_database_that_is_out_does_not_hide_what_waits(stage: Stage) -> None:
    stage.settle(event("later", stage.name), divert=True)
    where = ["--kafka", stage.bootstrap, "--dsn", "postgresql://x@127.0.0.1:1/x"]
    said = CliRunner().invoke(app, ["errors", "tail", "-n", "10000", *where])
    assert said.exit_code == 0
    assert f"{stage.partition.topic}/0/0/onramp" in said.stdout
    assert "its drained events are unknown" in said.stderr


def test_bad_is_parked_in_json_too(stage: Stage) -> None:
    stage.settle(envelope("bad", stage.name, BAD))
    [found] = _tail(stage, "--kind", "parked")
    assert (found["offset"], found["reason"]["step"], "value" in found) == (0, "persist", False)


def test_tail_reads_a_logs_end_alone_and_further_back_only_for_what_it_lacks(stage: Stage) -> None:
    """200 markers lie behind the one event that waits, and the parked ones are read from their ends."""
    stage.settle(*(envelope(f"bad-{n}", stage.name, BAD) for n in range(30)))
    stage.settle(event("later", stage.name), divert=True)
    for _ in range(200):
        stage.mark(Range(stage.topic_id, stage.partition, 50, 51), 0)
    waiting, parked, ends = asyncio.run(_read(stage))
    assert waiting == [f"{stage.partition.topic}/0/30/onramp"]
    assert [key for key in parked if stage.name in key] == parked
    assert (len(parked), ends) == (3, True)


async def _read(stage: Stage) -> tuple[list[str], list[str], bool]:
    async with CountedLogs(Brokers(stage.bootstrap)) as logs:
        waiting = await ErrorTail(logs, {}).last(1, "waiting")
        logs.given = 0
        parked = await ErrorTail(logs, {}).last(3, "parked")
        return [e.key for e in waiting], [e.key for e in parked], logs.given <= 3 * 4


class CountedLogs(KafkaLogs):
    """How many records were handed out."""

    given = 0

    async def read(self, spans: Mapping[Source, tuple[int, int]]) -> AsyncIterator[LogRecord]:
        async for record in super().read(spans):
            self.given += 1
            yield record


def test_tail_follow_shows_each_new_event_of_the_kind_once(stage: Stage) -> None:
    stage.settle(envelope("bad", stage.name, BAD))

    async def run() -> list[str]:
        async with KafkaLogs(Brokers(stage.bootstrap)) as logs:
            tail = ErrorTail(logs, {})
            [last] = await tail.last(1, "parked")
            assert last.key.startswith(f"{stage.partition.topic}/0/0/")
            await asyncio.to_thread(_park_more, stage)
            return [event.key async for event in _first(tail.follow("parked"), 2)]

    assert [key.split("/")[2] for key in asyncio.run(run())] == ["1", "2"]


def _park_more(stage: Stage) -> None:
    [kept] = [
        r for r in records(stage.bootstrap, wire.USER_ERRORS) if r.value and stage.name.encode() in r.value
    ]
    assert kept.key
    assert kept.value
    stage.park(kept.key, kept.value, list(kept.headers.items()))
    stage.settle(envelope("bad-1", stage.name, BAD), envelope("bad-2", stage.name, BAD))


async def _first(events: AsyncIterator[ErrorEvent], count: int) -> AsyncIterator[ErrorEvent]:
    async for each in events:
        yield each
        count -= 1
        if not count:
            return
