"""Replays of events with a refused destination land once, although writer and admin service are killed."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import psycopg2
import pytest

from stack import services
from stack.services import Service
from tests.fixtures.inline import Inline, KilledError, Places
from tests.fixtures.operator import Operator
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, execute, make_topics, rows

N = 20
CODE = "forbidden_destination"
WHERE = "/pipeline_context/destinations/0"
MID_REPLAY, MID_JOB = "writer.mid_replay", "admin.mid_job"
PATIENCE = 180
#: A replay that is held must outlast its database's patience with a transaction that does nothing.
_HELD = {"metrics_seconds": 0.2, "idle_in_transaction_ms": 60_000}


class Refused(Operator):
    """Packets for `other` without a grant; its table has no key, so a repeat would be visible."""

    def __init__(self, scene: Scene, other: Other, folder: Path) -> None:
        super().__init__(scene, other)
        self.scene, self.other, self._folder = scene, other, folder
        execute(other.dsn, "CREATE TABLE public.t (x int)")
        make_topics(scene.bootstrap, scene.topic, partitions=2)

    def produce(self) -> None:
        place = {"type": "postgres", "vanity": self.other.name, "schema": "public", "table": "t"}
        packets = ({"pipeline_context": {"destinations": [place]}, "data": {"x": n}} for n in range(N))
        self.scene.produce(*map(orjson.dumps, packets))

    def start_admin(self, pause: str = "") -> Service:
        env, log = self.env, self._folder / f"admin-{pause or 'next'}.log"
        if pause:
            env |= {"ONRAMP_FAILPOINTS": f"{pause}=pause", "ONRAMP_FAILPOINT_DIR": str(self._folder)}
        self.admin = services.admin(bootstrap=self.scene.bootstrap, dsn=self.scene.dsn, log=log, env=env)
        self.admin.start()
        self.admin.wait_ready()
        return self.admin

    def grant(self, writer: Inline) -> None:
        """Put the registry right, and wait until the writer works by it."""
        before = _digest(writer)
        self.scene.register({"grants": [{"topic": self.scene.topic, "schema": "public"}]})
        eventually(lambda: _digest(writer) not in ("", before))

    def of_state(self) -> Counter[str]:
        """How many of the events that were refused are in which state."""
        states: Counter[str] = Counter()
        for count in self.told("count")[0]:
            if count["code"] == CODE:
                states[count["state"]] += count["events"]
        return states

    def staged(self, of: Other | Scene) -> int:
        return int(rows(of.dsn, "SELECT count(*)::int FROM onramp.replays")[0][0])

    def replayed(self, of: Other | Scene) -> list[tuple[Any, ...]]:
        said = "SELECT outcome, attempt, count(*)::int FROM onramp.replayed GROUP BY 1, 2"
        return rows(of.dsn, said)

    def there(self) -> list[int]:
        return [x for (x,) in rows(self.other.dsn, "SELECT x FROM public.t ORDER BY 1")]


def _digest(writer: Inline) -> str:
    """By which registry a writer routes events."""
    shown = re.search(r'onramp_registry_info{digest="(.*)"}', "\n".join(writer.shown))
    return shown[1] if shown else ""


@pytest.fixture
def refused(inline: Scene, other: Other, tmp_path: Path) -> Iterator[Refused]:
    found = Refused(inline, other, tmp_path)
    try:
        yield found
    finally:
        if found.admin is not None:
            found.admin.kill()


@pytest.mark.full
def test_refused_packets_land_once_though_the_admin_service_and_the_writer_are_killed(
    refused: Refused, inline: Scene, other: Other, places: Places
) -> None:
    writer: Inline = inline.writer_into(other, **_HELD)
    refused.start_admin(MID_JOB)
    refused.produce()
    eventually(lambda: refused.of_state() == {"open": N}, PATIENCE)
    refused.grant(writer)
    sorting = places.hold_at(MID_REPLAY)
    job = refused.start("replay", "--code", CODE, "--reason", "it is granted")

    # The default database's writer sorts it, and the admin service dies before it has staged it on.
    def both_wait() -> bool:
        if refused.staged(inline) < N:
            inline.go_on(MID_JOB)
        return sorting.is_reached and inline.flag(MID_JOB).exists()

    eventually(both_wait, PATIENCE)
    assert refused.replayed(inline) == []
    sorting.go_on()
    eventually(lambda: refused.replayed(inline) == [("sorted", 1, N)], PATIENCE)
    assert refused.admin is not None
    refused.admin.kill()
    assert (refused.staged(inline), refused.staged(other), refused.there()) == (0, 0, [])

    # The next one stages it on, and the writer dies with the rows written and not committed.
    places.kill_at(MID_REPLAY)
    refused.start_admin()
    assert isinstance(writer.ended(PATIENCE), KilledError)
    assert rows(other.dsn, "SELECT pg_relation_size('public.t') > 0") == [(True,)]
    assert (refused.staged(other), refused.replayed(other), refused.there()) == (N, [], [])
    inline.writer_into(other, **_HELD)
    refused.done(job, PATIENCE)

    assert refused.there() == [*range(N)]
    assert refused.replayed(other) == [("landed", 1, N)]
    assert refused.replayed(inline) == [("sorted", 1, N)]
    assert (refused.staged(inline), refused.staged(other)) == (0, 0)
    assert refused.of_state() == {"replayed": N}
    code, said = refused.audited()
    assert (code, said["findings"], said["stored"]) == (0, [], {"replayed": N})


STAGE = """
    INSERT INTO onramp.replays
        (topic_id, topic, partition, "offset", destination, attempt, job, value, timestamp)
    SELECT %s::uuid, %s, 0, n, %s, 1, %s::uuid, convert_to(format(%s, n), 'UTF8'), now()
    FROM generate_series(0, %s) n
    WHERE NOT EXISTS (SELECT FROM onramp.replayed r WHERE r."offset" = n) ON CONFLICT DO NOTHING
"""


def test_a_writer_that_is_killed_at_each_place_sorts_and_lands_what_was_refused_once(
    inline: Scene, other: Other, places: Places
) -> None:
    """In the default database and in the one that it belongs to, before and behind each commit."""
    execute(other.dsn, "CREATE TABLE public.t (x int)")
    make_topics(inline.bootstrap, inline.topic)
    inline.register({"grants": [{"topic": inline.topic, "schema": "public"}]})
    place = {"type": "postgres", "vanity": other.name, "schema": "public", "table": "t"}
    packet = orjson.dumps({"pipeline_context": {"destinations": [place]}, "data": {"x": "%s"}})
    values = (str(uuid4()), inline.topic, WHERE, str(uuid4()), packet.decode().replace('"%s"', "%s"), N - 1)
    inline.writer_into(other).stop()  # Onramp's tables are there

    for dsn, at in product((inline.dsn, other.dsn), (MID_REPLAY, "writer.after_replay")):
        places.kill_at(at)
        with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cursor:
            cursor.execute(STAGE, values)
        writer: Any = inline.writer_into(other, wait=False)
        assert isinstance(writer.ended(), KilledError), (dsn, at)
        known = rows(dsn, "SELECT count(*)::int FROM onramp.replayed")
        assert known == [(0 if at == MID_REPLAY else N,)]
    assert rows(inline.dsn, "SELECT DISTINCT outcome FROM onramp.replayed") == [("sorted",)]
    assert rows(other.dsn, "SELECT DISTINCT outcome FROM onramp.replayed") == [("landed",)]
    assert [x for (x,) in rows(other.dsn, "SELECT x FROM public.t ORDER BY 1")] == [*range(N)]
