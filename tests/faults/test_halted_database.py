"""A restored dump halts only its own database; after an operator's decision no event lands twice."""

import json
import re
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.writer.kafka.producer import publish
from services.writer.park.diverted_topic import RangeMarker
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_security import Brokers
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import delete_records, eventually, ledger_of, rows


class Pair:
    """A scene whose events land in both databases."""

    def __init__(self, scene: Scene, other: Other) -> None:
        self.scene = scene
        self.second, self.name = other.dsn, other.name
        destinations = [{"type": "postgres"}, {"type": "postgres", "vanity": self.name}]
        self._registry = scene.register({"event_types": {scene.name: {"destinations": destinations}}})

    def writer(self) -> Inline:
        return self.scene.writer(registry=self._registry, databases=json.dumps({self.name: self.second}))

    def numbers(self) -> list[int]:
        if rows(self.second, "SELECT to_regclass(%s)::text", f"events.{self.scene.name}") == [(None,)]:
            return []
        return [n for (n,) in rows(self.second, f"SELECT (payload->>'n')::int FROM events.{self.scene.name}")]  # noqa: S608

    def all_landed(self) -> None:
        n = self.scene.accepted
        eventually(lambda: len(self.numbers()) >= n, 120)
        assert sorted(self.numbers()) == list(range(n))
        eventually(lambda: ledger_of(self.second, self.scene.topic) == self.scene.ledger())
        totals = dict(rows(self.second, "SELECT outcome, sum(events)::int FROM onramp.totals GROUP BY 1"))
        assert totals == {"landed": n}
        self.scene.all_landed_once()

    def onramp(self, *arguments: str) -> Any:
        databases = ["--dsn", self.scene.dsn, "--databases", json.dumps({self.name: self.second})]
        return CliRunner().invoke(app, ["databases", *arguments, *databases])

    def state(self, writer: Inline) -> str:
        return writer.states[self.name]

    def restore(self) -> None:
        """Put the second database back to where the first 20 events were, as a dump would."""
        with closing(psycopg2.connect(self.second)) as conn, conn, conn.cursor() as cursor:
            for kept, table in self._tables().items():
                cursor.execute(f"CREATE TABLE {kept} AS TABLE {table}")
            cursor.execute(f"DELETE FROM events.{self.scene.name} WHERE (payload->>'n')::int >= 20")  # noqa: S608
            for partition, offset in self.at_20.items():
                cursor.execute(
                    "UPDATE onramp.ledger SET next_offset = %s WHERE partition = %s", (offset, partition)
                )
            cursor.execute("DELETE FROM onramp.totals")
            cursor.execute(
                "INSERT INTO onramp.totals SELECT l.topic_id, l.topic, l.partition, %s, 'landed', "
                "l.next_offset FROM onramp.ledger l WHERE l.topic = %s",
                (f"events.{self.scene.name}", self.scene.topic),
            )

    def bring_back(self) -> None:
        """Undo `restore`: the data that were lost have been found after all."""
        with closing(psycopg2.connect(self.second)) as conn, conn, conn.cursor() as cursor:
            for kept, table in self._tables().items():
                cursor.execute(f"TRUNCATE {table}; INSERT INTO {table} SELECT * FROM {kept}")  # noqa: S608

    def _tables(self) -> dict[str, str]:
        ours = [f"events.{self.scene.name}", "onramp.ledger", "onramp.totals"]
        return {f"kept_{n}": table for n, table in enumerate(ours)}

    def halt(self) -> Inline:
        """A writer whose second database lacks 30 of 50 events that had landed."""
        writer = self.writer()
        self.scene.send(20)
        self.all_landed()
        self.dump()
        self.scene.send(30)
        self.all_landed()
        self.restore()
        eventually(lambda: self.state(writer) == "halted")
        return writer

    def dump(self) -> None:
        """Remember where the second database is."""
        self.at_20 = ledger_of(self.second, self.scene.topic)


@pytest.fixture
def pair(inline: Scene, other: Other) -> Pair:
    return Pair(inline, other)


def test_nothing_is_resolved_where_nothing_is_halted(pair: Pair) -> None:
    writer = pair.writer()
    eventually(lambda: pair.state(writer) == "landing")
    assert pair.onramp("resolve", pair.name, "refill").exit_code == 1


def test_restored_dump_is_refilled_when_an_operator_resolves_with_refill(pair: Pair) -> None:
    writer = pair.halt()
    pair.scene.send(10)
    eventually(lambda: pair.scene.landed() == 60)  # the other goes on
    eventually(lambda: re.search(rf"^{pair.name} +halted ", pair.onramp("list").output, re.MULTILINE))
    assert pair.onramp("list").exit_code == 1
    assert sorted(pair.numbers()) == list(range(20))

    assert pair.onramp("resolve", pair.name, "refill").exit_code == 0
    pair.all_landed()
    eventually(lambda: pair.state(writer) == "landing")
    assert pair.onramp("list").exit_code == 0
    pair.scene.send(5)
    pair.all_landed()


@pytest.mark.full
def test_restored_dump_resolved_with_skip_lands_later_events_without_the_skipped_events(pair: Pair) -> None:
    writer = pair.halt()
    pair.scene.send(10)
    eventually(lambda: pair.scene.landed() == 60)
    eventually(lambda: pair.onramp("resolve", pair.name, "skip").exit_code == 0)
    eventually(lambda: sorted(pair.numbers()) == [*range(20), *range(50, 60)])
    eventually(lambda: pair.state(writer) == "landing")


def test_data_that_came_back_are_compared_again_and_no_sooner(pair: Pair) -> None:
    writer = pair.halt()
    eventually(lambda: pair.onramp("resolve", pair.name, "recheck").exit_code == 0)
    # It was halted a moment ago: that it is so again needs a sign of its own.
    eventually(lambda: rows(pair.second, "SELECT resolution FROM onramp.halts") == [(None,)])
    assert pair.state(writer) == "halted"
    assert sorted(pair.numbers()) == list(range(20))
    pair.scene.send(10)
    eventually(lambda: pair.scene.landed() == 60)
    pair.bring_back()
    eventually(lambda: pair.onramp("resolve", pair.name, "recheck").exit_code == 0)
    pair.all_landed()
    eventually(lambda: pair.state(writer) == "landing")


def test_refill_of_events_deleted_by_kafka_is_refused_and_the_halt_names_the_reason(pair: Pair) -> None:
    writer = pair.halt()
    lost = {p: at for p, at in pair.scene.ledger().items() if at > pair.at_20.get(p, 0)}
    for partition, at in lost.items():
        delete_records(pair.scene.bootstrap, pair.scene.topic, partition, at)
    eventually(lambda: pair.onramp("resolve", pair.name, "refill").exit_code == 0)
    eventually(lambda: "Kafka has deleted" in pair.onramp("list").output)
    assert pair.state(writer) == "halted"
    eventually(lambda: pair.onramp("resolve", pair.name, "skip").exit_code == 0)
    pair.scene.send(10)
    eventually(lambda: sorted(pair.numbers()) == [*range(20), *range(50, 60)])


def test_marker_with_unknown_routes_halts_only_its_database(pair: Pair) -> None:
    writer = pair.writer()
    pair.scene.send(20)
    pair.all_landed()
    writer.stop()
    [(topic_id, number, at)] = rows(
        pair.second,
        "SELECT topic_id::text, partition, next_offset FROM onramp.ledger WHERE topic = %s "
        "ORDER BY partition LIMIT 1",
        pair.scene.topic,
    )
    range_ = Range(topic_id, Partition(pair.scene.topic, number), at, at + 1)
    publish(
        Brokers(pair.scene.bootstrap),
        [RangeMarker(pair.name, range_, count=0, first=0, digest="nobody").as_record()],
    )
    writer = pair.writer()
    eventually(lambda: pair.state(writer) == "halted")
    pair.scene.send(10)
    eventually(lambda: pair.scene.landed() == 30)
    assert sorted(pair.numbers()) == list(range(20))
    eventually(lambda: pair.onramp("resolve", pair.name, "refill").exit_code == 0)
    pair.all_landed()
