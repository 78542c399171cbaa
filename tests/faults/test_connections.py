"""Connections that fail or are refused, and tables that change, while events flow."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

import psycopg2
import pytest

from shared import wire
from tests.faults.conftest import Ground
from tests.fixtures.inline import Inline, start_inline
from tests.fixtures.proxy import Proxy
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import event, eventually, execute, make_topics, produce, records, rows


def test_a_commit_whose_reply_is_lost_lands_nothing_twice(
    ground: Ground, inline: Scene, tmp_path: Path
) -> None:
    proxy = Proxy(inline.dsn)
    inline.send(20)
    running: list[Inline] = []
    try:
        behind = Scene(
            start_writer=partial(start_inline, running),
            bootstrap=ground.kafka.bootstrap,
            dsn=proxy.dsn,
            gateway="",
            folder=tmp_path,
        )
        behind.name, behind.topic = inline.name, inline.topic
        proxy.cut_commits(2, "onramp-writer land")
        behind.writer(database=inline.database)
        eventually(lambda: proxy.cut == 2 or inline.send(1))
        inline.all_landed_once()
        inline.audited()
        assert proxy.cut == 2
    finally:
        for writer in running:
            writer.stop()
        proxy.close()


@contextmanager
def _no_connection_left(dsn: str) -> Iterator[None]:
    """Take every connection that the server has, and end those of the writer."""
    with ExitStack() as stack:

        def fill() -> None:
            with suppress(psycopg2.OperationalError):
                while True:
                    stack.enter_context(closing(psycopg2.connect(dsn)))

        first = stack.enter_context(closing(psycopg2.connect(dsn)))
        fill()
        first.autocommit = True
        with first.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'onramp-writer%'"
            )
        fill()
        with pytest.raises(psycopg2.OperationalError, match=r"too many clients|remaining connection slots"):
            psycopg2.connect(dsn)
        yield


def test_while_postgres_has_no_connection_left_events_wait_and_none_is_parked(
    on_breakable_postgres: Scene,
) -> None:
    scene = on_breakable_postgres
    scene.send(20)
    writer: Inline = scene.writer()
    scene.all_landed_once()
    with _no_connection_left(scene.dsn):
        scene.send(20)
        eventually(lambda: set(writer.states.values()) == {"out"})
    scene.all_landed_once()
    parked = [r for r in records(scene.bootstrap, wire.USER_ERRORS) if r.error["topic"] == scene.topic]
    assert parked == []
    scene.audited()


class Flow:
    """Events with and without a field, sent without a pause until stopped."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _send(self) -> None:
        while not self._stop.is_set():
            ids = range(self.sent, self.sent + 20)
            values = [event(f"e-{i}", self._scene.name, n=i, **({"extra": i} if i % 2 else {})) for i in ids]
            produce(self._scene.bootstrap, self._scene.topic, values)
            self.sent += 20


def test_a_table_that_changes_parks_only_what_does_not_fit_it(inline: Scene) -> None:
    execute(inline.dsn, "CREATE TABLE public.t (_id text PRIMARY KEY, n int)")
    make_topics(inline.bootstrap, inline.topic)
    table = {"type": "postgres", "schema": "public", "table": "t"}
    inline.writer(registry=inline.register({"event_types": {inline.name: {"destinations": [table]}}}))

    def seen(what: str) -> int:
        return int(rows(inline.dsn, f"SELECT count(*) FROM public.t WHERE {what}")[0][0])  # noqa: S608

    def parked() -> set[int]:
        found = records(inline.bootstrap, wire.USER_ERRORS)
        mine = [r for r in found if r.error["topic"] == inline.topic]
        assert [r.error["detail"] for r in mine if r.error["code"] != "unknown_field"] == []
        return {r.error["offset"] for r in mine}

    with Flow(inline) as flow:
        eventually(parked)  # it has no `extra` yet
        execute(inline.dsn, "ALTER TABLE public.t ADD COLUMN extra int")
        eventually(lambda: seen("extra IS NOT NULL"))
        execute(inline.dsn, "ALTER TABLE public.t ALTER COLUMN n TYPE bigint, ALTER COLUMN extra TYPE bigint")
        retyped = flow.sent
        eventually(lambda: seen(f"n > {retyped} AND extra IS NOT NULL"))
        execute(inline.dsn, "ALTER TABLE public.t RENAME COLUMN extra TO other")
        before = len(parked())
        eventually(lambda: len(parked()) > before)
        execute(inline.dsn, "ALTER TABLE public.t DROP COLUMN other")
        dropped = flow.sent
        eventually(lambda: seen(f"n > {dropped}"))
    eventually(lambda: inline.settled() == {0: flow.sent} == inline.group())
    eventually(lambda: seen("true") + len(parked()) == flow.sent)
    assert seen("n % 2 = 0") == flow.sent // 2  # what names no column that changed is there, all of it
    assert all(offset % 2 for offset in parked())
    inline.audited()
