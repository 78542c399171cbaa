"""The merger of a database: notifications, polls, and suspension of single tables."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg2
import pytest
from typer.testing import CliRunner

from services.cdc.merge.table_merge import Merge
from services.cdc.merger.merger import Merger
from services.cdc.merger.published import Published, is_one_condition
from services.cdc.merger.settings import MergerSettings
from services.cli.app import app
from shared import change_table
from shared.registry.sources import Model, Source
from tests.fixtures.changes import Stream
from tests.fixtures.writer import eventually
from tests.integration.cdc.merge_bench import Desk

SOURCE = Source(dsn_env="ONRAMP_SOURCE_SHOP", schemas=("app",), publish="shop", keep_landing="1h")
#: Polls so rarely that only a notification wakes the merger.
SELDOM = MergerSettings(poll_seconds=3600, retry_seconds=0.1)
OFTEN = MergerSettings(poll_seconds=0.05, retry_seconds=0.1)


@contextmanager
def running(desk: Desk, settings: MergerSettings, models: dict[str, Model] | None = None) -> Iterator[Merger]:
    published = Published(sources={"shop": SOURCE}, models=models or {})
    with running_by(desk, settings, lambda: published) as merger:
        yield merger


@contextmanager
def running_by(desk: Desk, settings: MergerSettings, published: Callable[[], Published]) -> Iterator[Merger]:
    """Run the merger with a registry that may change."""
    merger = Merger("onramp", desk.bench.dsn, published, settings)
    thread = threading.Thread(target=merger.run)
    thread.start()
    try:
        yield merger
    finally:
        merger.stop()
        desk.bench.execute("NOTIFY onramp_landing")
        thread.join(30)
        assert not thread.is_alive()


def _there(desk: Desk, expected: list[tuple[object, ...]]) -> Callable[[], bool]:
    def look() -> bool:
        exists = desk.bench.one("SELECT to_regclass('shop.orders') IS NOT NULL")
        return bool(exists) and desk.rows() == expected

    return look


def test_landed_change_is_published_on_notification_without_a_poll(desk: Desk) -> None:
    desk.tell()
    with running(desk, SELDOM):
        eventually(_there(desk, []))
        for i in range(3):
            desk.land(Stream(at=1000 + i * 100).insert(id=i, note="a"))
            eventually(_there(desk, [(n, "a") for n in range(i + 1)]))


def test_source_registered_after_its_table_history_was_read_is_published(desk: Desk) -> None:
    desk.tell().bench.execute("DELETE FROM onramp.table_settings")
    polls, named = list[str](), ["other"]

    def published() -> Published:
        polls.extend(named)
        return Published(sources=dict.fromkeys(named, SOURCE), models={})

    with running_by(desk, OFTEN, published):
        eventually(lambda: polls.count("other") > 2)  # by then the merger has read the history
        named.append("shop")
        desk.land(Stream().insert(id=1, note="a"))
        eventually(_there(desk, [(1, "a")]))


def test_landed_change_is_published_by_polling_without_a_notification(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = list[Published]()

    def published() -> Published:
        polls.append(Published(sources={"shop": SOURCE}, models={}))
        return polls[-1]

    desk.tell()
    with running_by(desk, OFTEN, published):
        eventually(_there(desk, []))
        idle_from = len(polls) + 5  # the end of a merge causes a poll, too
        eventually(lambda: len(polls) >= idle_from)
        monkeypatch.setattr(change_table, "CHANNEL", "onramp_without_listener")
        desk.land(Stream().insert(id=1, note="a"))
        eventually(_there(desk, [(1, "a")]))


def test_tables_without_news_cost_no_statement_of_theirs(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a"))
    with running(desk, OFTEN):
        eventually(_there(desk, [(1, "a")]))
        before = desk.bench.one("SELECT merged_at FROM onramp.table_settings")
        desk.bench.execute("NOTIFY onramp_landing")
        time.sleep(0.5)  # ten polls
        assert desk.bench.one("SELECT merged_at FROM onramp.table_settings") == before


def test_table_with_an_unexpected_merge_error_is_suspended_with_a_reason(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.tell().land(Stream().insert(id=1, note="a"))
    with monkeypatch.context() as patched:
        patched.setattr(Merge, "run", fails)
        with running(desk, OFTEN):
            eventually(lambda: desk.model()["reason"])
    reason = "it cannot be merged: unexpected error (LookupError); see the merger's log"
    assert desk.model()["reason"].startswith(reason)
    with running(desk, OFTEN):
        eventually(_there(desk, [(1, "a")]))
    assert desk.model()["reason"] is None


def fails(*_: object) -> bool:
    raise LookupError


def test_a_table_that_fails_is_held_alone_and_goes_on_when_it_is_fixed(desk: Desk) -> None:
    other = Desk(desk.bench)
    desk.tell().land(Stream().insert(id="x", note="a"))
    with closing(psycopg2.connect(desk.bench.dsn)) as conn, conn, conn.cursor() as cursor:
        cursor.execute(
            "INSERT INTO onramp.source_tables (source, schema_name, table_name, columns, key) VALUES "
            "('shop', 'app', 'other', '[{\"name\": \"id\", \"type\": \"integer\"}]', '{id}')"
        )
    assert other.next_offset == 0
    with running(desk, OFTEN):
        eventually(
            lambda: (
                "22P02"
                in (
                    desk.bench.one(
                        "SELECT max(reason) FROM onramp.table_settings WHERE table_name = 'orders'"
                    )
                    or ""
                )
            )
        )
        eventually(lambda: desk.bench.one("SELECT to_regclass('shop.other') IS NOT NULL"))
        assert (
            desk.bench.one("SELECT suspended_since FROM onramp.table_settings WHERE table_name = 'orders'")
            is not None
        )
        desk.columns["id"] = "text"
        desk.tell()
        eventually(_there(desk, [("x", "a")]))
        assert desk.bench.rows(
            "SELECT reason, suspended_since FROM onramp.table_settings WHERE table_name = 'orders'"
        ) == [(None, None)]


def test_landing_goes_on_while_its_table_is_held(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id="x", note="a"))
    with running(desk, OFTEN):
        eventually(lambda: desk.model()["reason"])
        desk.land(Stream(at=1200).insert(id=2, note="b"))
        assert desk.bench.one("SELECT count(*) FROM landing.shop__app__orders") == 2


def test_two_mergers_count_nothing_twice(desk: Desk) -> None:
    desk.key = None
    desk.tell()
    with running(desk, OFTEN), running(desk, OFTEN):
        for i in range(20):
            desk.land(Stream(at=1000 + i * 100).insert(id=1, note="a"))
        eventually(lambda: desk.model()["changes"] == 20)
    assert desk.rows() == [(1, "a")] * 20


def test_a_parked_change_holds_the_table(desk: Desk) -> None:
    stream = Stream().insert(id=1, note="a").insert(id=2, note="\0")
    desk.tell().land(stream)
    with running(desk, OFTEN):
        eventually(lambda: "parked" in (desk.model()["reason"] or ""))
    assert desk.model()["next_offset"] == 0


def test_so_does_one_of_which_nothing_else_came(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=2, note="\0"))
    with running(desk, OFTEN):
        eventually(lambda: "parked" in (desk.model()["reason"] or ""))


def test_a_topic_that_was_made_again_holds_the_table(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a"))
    with running(desk, OFTEN):
        eventually(_there(desk, [(1, "a")]))
        desk.make_topic_again().land(Stream().insert(id=2, note="b"))
        eventually(lambda: "recreated" in (desk.model()["reason"] or ""))
    assert desk.rows() == [(1, "a")]


def test_changes_that_wait_behind_a_lock_are_not_passed_over(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b").insert(id=3, note="c"))
    landing = "landing.shop__app__orders"
    desk.bench.execute(f"CREATE TABLE public.waits AS SELECT * FROM {landing} WHERE _offset = 1")  # noqa: S608
    desk.bench.execute(f"DELETE FROM {landing} WHERE _offset = 1")  # noqa: S608
    desk.bench.execute(
        "INSERT INTO onramp.waiting SELECT topic_id, topic, partition, 1, 'landing.shop__app__orders', "
        "'landing', 'shop__app__orders', false, 'x', 'x', '', NULL, now() FROM onramp.ledger "
        "WHERE topic LIKE 'cdc%'"
    )
    with running(desk, OFTEN):
        eventually(_there(desk, [(1, "a")]))
        desk.bench.execute(f"INSERT INTO {landing} SELECT * FROM public.waits")  # noqa: S608
        desk.bench.execute("DELETE FROM onramp.waiting")
        eventually(_there(desk, [(1, "a"), (2, "b"), (3, "c")]))


def test_the_models_of_the_registry_clean(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b"))
    with running(desk, OFTEN, {"shop.app.orders": Model(where="after->>'note' <> 'b'")}):
        eventually(_there(desk, [(1, "a")]))


def test_old_merged_changes_are_trimmed(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").insert(id=2, note="b").insert(id=3, note="c"))
    desk.bench.execute(
        "UPDATE landing.shop__app__orders SET change = change || '{\"ts_ms\": 1}' WHERE _offset < 2"
    )
    with running(desk, MergerSettings(poll_seconds=0.05, trim_seconds=0.05)):
        eventually(lambda: desk.bench.one("SELECT count(*) FROM landing.shop__app__orders") == 1)
    assert desk.bench.one("SELECT trimmed_to FROM onramp.table_settings") == 2
    assert desk.rows() == [(1, "a"), (2, "b"), (3, "c")]


def test_a_table_is_made_again_from_what_landed(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a").update(id=1, note="b"))
    with running(desk, OFTEN):
        eventually(_there(desk, [(1, "b")]))
        desk.bench.execute("UPDATE shop.orders SET note = 'by hand'")
        said = CliRunner().invoke(app, ["sources", "rebuild", "shop.app.orders", "--dsn", desk.bench.dsn])
        assert said.exit_code == 0, said.output
        eventually(_there(desk, [(1, "b")]))


def test_table_with_trimmed_changes_cannot_be_rebuilt(desk: Desk) -> None:
    desk.tell().land(Stream().insert(id=1, note="a")).merge()
    desk.bench.execute("UPDATE onramp.table_settings SET trimmed_to = 1")
    said = CliRunner().invoke(app, ["sources", "rebuild", "shop.app.orders", "--dsn", desk.bench.dsn])
    assert (said.exit_code, "onramp sources resync shop" in said.output) == (1, True)
    assert desk.model()["next_offset"] == 1


@pytest.mark.parametrize(
    ("where", "is_one"),
    [
        ("after->>'a' NOT LIKE '%;--'", True),
        ("(a) AND (b)", True),
        ("a) OR (b", False),
        ("a; DROP TABLE x", False),
        ("a -- b", False),
        ("a /* b", False),
        ("'a", False),
        ("$$a", False),
        ("(a", False),
    ],
)
def test_a_condition_cannot_end_the_statement_around_it(where: str, *, is_one: bool) -> None:
    assert is_one_condition(where) is is_one
