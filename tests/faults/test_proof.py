"""The proof: flights and broken events, one database down and one that hangs, a log that goes back,
kills on the way, and every book balances.

`make proof` sends 100,000 real flights and 1,000 broken ones through writers that are killed
with kill -9.  Among the tests it is a twentieth of that, and the writers are threads that end
where they are.
"""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from services.ops.audit.run import Request, audit
from services.ops.settled.reader import SettledReader
from services.ops.statement.balance import Period, statement
from services.ops.statement.collect import collect
from services.writer.park.diverted_topic import HEADER
from shared import wire
from shared.kafka_security import Brokers
from stack.kafka import Kafka
from tests.fixtures.cut_topic import CutTopic
from tests.fixtures.flights import (
    KINDS,
    Flight,
    Sender,
    broken,
    expected,
    good,
    in_landing,
    in_table,
    make_tables,
    mixed,
    slices,
)
from tests.fixtures.inline import KilledError, Places
from tests.fixtures.scenes import Scene, gone, kill_driver_alone
from tests.fixtures.second_database import Other
from tests.fixtures.silent_servers import Stopped
from tests.fixtures.writer import eventually, group_offsets, ledger_of, make_topics, records, rows

pytestmark = pytest.mark.full

FLIGHTS = int(os.environ.get("ONRAMP_PROOF_FLIGHTS", "5000"))
REAL = "ONRAMP_PROOF_FLIGHTS" in os.environ
BROKEN = max(FLIGHTS // 100, 100)
#: Where writers are killed, one after the other, and how many batches each is let go on before.
KILLS = {
    "writer.mid_isolation": 1,
    "writer.after_commit": 1,
    "writer.between_divert_and_marker": 2,
    "writer.after_outbox_publish": 1,
    "writer.before_group_commit": 2,
}
MIDDLE = "writer.mid_drain"
PATIENCE = 120 + FLIGHTS / 200


class Proof:
    """Three event types: to A's table and the landing tables of B and C; to A's table; to B's keyless one."""

    def __init__(self, scene: Scene, other: Other, hung: Other, kafka: Kafka, places: Places) -> None:
        self.scene, self.other, self.hung, self._places = scene, other, hung, places
        self.cut = CutTopic(scene, kafka._data_dir, PATIENCE)
        self.names = [f"{scene.name}{suffix}" for suffix in ("", "_a", "_b")]
        self.topics = [wire.topic_of(name) for name in self.names]
        table = {"type": "postgres", "schema": "public", "table": "flights"}
        there = {"vanity": other.name}
        landings = [{"type": "postgres", "vanity": database.name} for database in (other, hung)]
        destinations = ([table, *landings], [table], [table | there])
        types = {name: {"destinations": to} for name, to in zip(self.names, destinations, strict=True)}
        self.registry = scene.register({"event_types": types})
        share = FLIGHTS // 5
        self.both = good(self.names[0], 0, FLIGHTS - 2 * share)
        self.a = mixed(good(self.names[1], len(self.both), share), broken(self.names[1], BROKEN // 2))
        self.b = mixed(good(self.names[2], len(self.both) + share, share), broken(self.names[2], BROKEN // 2))

    @property
    def sent(self) -> list[Flight]:
        return [*self.both, *self.a, *self.b]

    def prepare(self) -> "Proof":
        make_tables(self.scene.dsn, key=True)
        make_tables(self.other.dsn, key=False)
        make_topics(self.scene.bootstrap, *self.topics, partitions=2)
        self.cut.prepare()
        return self

    def pieces(self, count: int) -> Iterator[None]:
        """Send everything, one piece per request."""
        sender = Sender(self.scene.bootstrap)
        parts = [slices(flights, count) for flights in (self.both, self.a, self.b)]
        for piece in zip(*parts, strict=True):
            for topic, flights in zip(self.topics, piece, strict=True):
                sender.send(topic, flights)
            yield

    def writer(self, place: str = "", after: int = 0, *, armed: bool = True) -> None:
        """Start a writer, to be killed at `place` when it was there so many times before."""
        self._end = place, after
        if place and armed:
            self.arm()
        self._running = self.scene.writer(
            place if REAL else "",
            wait=False,
            registry=self.registry,
            databases=orjson.dumps({o.name: o.dsn for o in (self.other, self.hung)}).decode(),
            topics="|".join(map(re.escape, [*self.topics, self.cut.topic])),
            batch_events=max(FLIGHTS // 40, 50),
        )

    def arm(self) -> None:
        """Kill the writer at its failpoint from now on; a real process from its start."""
        if not REAL:
            self._places.kill_at(*self._end)

    def killed(self) -> None:
        """Wait until the writer is where it is to be killed, and kill it."""
        place, after = self._end
        if not REAL:
            assert isinstance(self._running.ended(PATIENCE), KilledError)
            return
        for _ in range(after):
            self.scene.paused_at(place)
            self.scene.go_on(place)
        self.scene.paused_at(place)
        orphans = kill_driver_alone(self._running)
        eventually(lambda: gone(orphans), 30)

    def ranges_waiting(self, database: Other) -> int:
        """Markers of one of the other databases."""
        heads = [orjson.loads(r.headers[HEADER]) for r in records(self.scene.bootstrap, wire.SYSTEM_ERRORS)]
        return sum((h["kind"], h["database"]) == ("marker", database.name) for h in heads)

    def settled(self, *dsns: str) -> bool:
        """Return whether every offset is settled in these databases and committed by the group."""
        for topic in self.topics:
            group = group_offsets(self.scene.bootstrap, topic)
            if any(ledger_of(dsn, topic) != group for dsn in dsns):
                return False
        return all(self.offsets_in(dsn) == len(self.sent) for dsn in dsns)

    def offsets_in(self, dsn: str) -> int:
        """How many offsets of the flights a database's ledger has settled."""
        ends = "SELECT coalesce(sum(next_offset), 0)::int FROM onramp.ledger WHERE topic NOT LIKE '%\\_cut'"
        return int(rows(dsn, ends)[0][0])


@pytest.fixture
def start_alone(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Starts real writers where the proof is the large one."""
    return request.getfixturevalue("start_writer" if REAL else "inline_writers")  # type: ignore[no-any-return]


@pytest.fixture
def proof(alone: Scene, other: Other, hung: Other, breakable_kafka: Kafka, places: Places) -> Proof:
    return Proof(alone, other, hung, breakable_kafka, places).prepare()


def test_every_flight_is_where_it_belongs_and_every_broken_one_is_parked_once(
    proof: Proof, server: Stopped, breakable_kafka: Kafka
) -> None:
    pieces = proof.pieces(len(KILLS) + 1)
    for at, (place, after) in enumerate(KILLS.items()):
        next(pieces)
        if at == 1:
            proof.other.close()
        proof.writer(place, after)
        proof.killed()
    # A database that was silent for a moment, on a busy machine, drains as well, and before its time.
    proof.writer(MIDDLE, 2, armed=False)
    _hangs_under_load(proof, server, pieces)
    eventually(lambda: proof.ranges_waiting(proof.other) >= 10, PATIENCE)
    proof.arm()
    proof.other.open()
    proof.killed()
    proof.writer()
    eventually(lambda: proof.settled(proof.scene.dsn, proof.other.dsn), PATIENCE)
    server.go_on()
    proof.cut.goes_back(breakable_kafka)
    proof.cut.is_accepted()
    eventually(lambda: proof.settled(proof.scene.dsn, proof.other.dsn, proof.hung.dsn), PATIENCE)
    eventually(proof.cut.settled, PATIENCE)

    _see_rows(proof)
    _see_parked(proof)
    _see_audit(proof)
    _see_statement(proof)


def _hangs_under_load(proof: Proof, server: Stopped, pieces: Iterator[None]) -> None:
    """Stop the server of one database between two batches; events sent meanwhile land in the other."""
    before = proof.offsets_in(proof.hung.dsn)
    eventually(lambda: proof.offsets_in(proof.hung.dsn) > before, PATIENCE)
    server.stop()
    next(pieces)
    eventually(lambda: proof.settled(proof.scene.dsn), PATIENCE)
    assert proof.ranges_waiting(proof.hung)


def _see_rows(proof: Proof) -> None:
    """Exactly the right rows: none is missing, none is there twice, none is another."""
    assert in_table(proof.scene.dsn) == expected([*proof.both, *proof.a])
    assert in_table(proof.other.dsn) == expected(proof.b)
    for database in (proof.other, proof.hung):
        assert in_landing(database.dsn, proof.names[0]) == expected(proof.both)


def _see_parked(proof: Proof) -> None:
    """Exactly the broken ones, each under one key, byte for byte, for the right reason."""

    def parked() -> dict[bytes | None, dict[str, str]]:
        found = records(proof.scene.bootstrap, wire.USER_ERRORS)
        mine = [r for r in found if r.error["topic"] in proof.topics]
        assert len({r.key for r in mine}) == len({r.value for r in mine})
        return {r.value: r.error for r in mine}

    eventually(lambda: len(parked()) >= BROKEN)  # the outbox is relayed after the batch
    found = parked()
    bad = {f.value: f.kind for f in proof.sent if f.kind}
    assert found.keys() == bad.keys()
    assert len(found) == BROKEN
    for value, error in found.items():
        kind = KINDS[bad[value or b""]]
        assert error["code"] == kind.code, (bad[value or b""], error)
        assert kind.says in error["detail"], (bad[value or b""], error)


def _see_audit(proof: Proof) -> None:
    databases = {proof.scene.database: proof.scene.dsn}
    databases |= {database.name: database.dsn for database in (proof.other, proof.hung)}
    topics = "|".join(map(re.escape, proof.topics))
    report = asyncio.run(audit(Request(Brokers(proof.scene.bootstrap), databases, topics, deep=True)))
    assert (report.findings, report.unsettled) == ([], 0)
    assert report.receipts == len(proof.sent)
    outcomes = [(n, o) for line in report.lines for o, n in line.outcomes.items()]
    landed = len(expected(proof.sent)) + 2 * len(expected(proof.both))
    assert sum(n for n, o in outcomes if o == "landed") == landed
    assert sum(n for n, o in outcomes if o == "duplicate") == 0
    no_json = sum(f.kind == "no JSON" for f in proof.sent)
    assert sum(n for n, o in outcomes if o == "parked") == BROKEN - no_json
    assert sum(line.unroutable for line in report.lines) == no_json


def _see_statement(proof: Proof) -> None:
    """The statement adds up, and each of its counts is the test's own."""
    databases = {proof.scene.database: proof.scene.dsn}
    databases |= {database.name: database.dsn for database in (proof.other, proof.hung)}
    found = asyncio.run(collect(Brokers(proof.scene.bootstrap), databases, 60, SettledReader()))
    periods = {name: Period(None, reading) for name, reading in found.databases.items()}
    said = statement(periods, shows=lambda topic: topic in proof.topics, missing=found.missing)
    assert (said.differences, said.unevaluated) == ([], {})
    landed: Counter[str] = Counter()
    for line in said.lines:
        for each in line.destinations:
            landed[each.destination] += each.outcomes.get("landed", 0)
    assert landed == {
        f"{proof.scene.database}.public.flights": len(expected([*proof.both, *proof.a])),
        f"{proof.other.name}.public.flights": len(expected(proof.b)),
        f"{proof.other.name}.events.{proof.names[0]}": len(expected(proof.both)),
        f"{proof.hung.name}.events.{proof.names[0]}": len(expected(proof.both)),
    }
    parked = sum(each.outcomes.get("parked", 0) for line in said.lines for each in line.destinations)
    no_json = sum(f.kind == "no JSON" for f in proof.sent)
    assert parked == BROKEN - no_json
    records_of = {line.topic: line.records for line in said.lines if line.database == proof.scene.database}
    sizes = [len(proof.both), len(proof.a), len(proof.b)]
    assert records_of == dict(zip(proof.topics, sizes, strict=True))
