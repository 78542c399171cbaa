"""Repeated work lands once: a lost reply to COMMIT, and the same work order in two tasks at once."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.fixtures.proxy import Proxy
from tests.fixtures.writer import Bench, Landed, arrivals, envelope, event

GOOD = [event(f"order-{i}") for i in range(9)]
BAD = envelope("bad", payload=b'{"a":"\\u0000"}')


@dataclass(frozen=True)
class Twice:
    """A landing table, and an order that is settled more than once."""

    bench: Bench

    def settle(self, dsn: str = "") -> Landed:
        return replace(self.bench, dsn=dsn or self.bench.dsn).settle(arrivals([*GOOD, BAD], first=1))

    def all_is_there_once(self) -> None:
        rows = self.bench.rows("SELECT _id FROM events.order_placed ORDER BY _offset")
        assert [i for (i,) in rows] == ["first", *(f"order-{i}" for i in range(9))]
        assert self.bench.ledger() == 1 + len([*GOOD, BAD])
        assert self.bench.totals() == {"landed": 10, "parked": 1}
        assert self.bench.one("SELECT count(*) FROM onramp.outbox") == 1


@pytest.fixture
def proxy(bench: Bench) -> Iterator[Proxy]:
    proxy = Proxy(bench.dsn)
    yield proxy
    proxy.close()


@pytest.fixture(params=[True, False], ids=["a table with a key", "a table without"])
def twice(request: pytest.FixtureRequest, bench: Bench) -> Twice:
    """Without its key only the ledger can keep a row from landing twice."""
    bench.settle(arrivals([event("first")]))
    if not request.param:
        bench.execute("ALTER TABLE events.order_placed DROP CONSTRAINT order_placed_pkey")
    return Twice(bench)


def test_a_commit_whose_reply_is_lost_is_found_settled(twice: Twice, proxy: Proxy) -> None:
    proxy.cut_commits(1, "onramp-writer land")
    assert twice.settle(proxy.dsn).failures == ("database_unavailable",)
    assert proxy.cut == 1
    twice.all_is_there_once()  # although the task was told that the connection is gone
    assert twice.settle(proxy.dsn).failures == ()
    twice.all_is_there_once()


def test_work_order_run_by_several_tasks_at_once_lands_once(twice: Twice) -> None:
    begin = threading.Barrier(4)
    done: list[Landed] = []

    def settle() -> None:
        begin.wait(20)
        done.append(twice.settle())

    twins = [threading.Thread(target=settle) for _ in range(4)]
    for twin in twins:
        twin.start()
    for twin in twins:
        twin.join(60)
    assert [d.failures for d in done] == [()] * 4
    assert sum(d.parked for d in done) == 1
    twice.all_is_there_once()
