"""A large replay runs in small transactions, so that no live event waits for it.

How long they take is measured (`make bench-errors`); here is what that rests on.
"""

from pathlib import Path

import httpx2

from services.writer.replay import replay
from stack import services
from stack.services import Service
from tests.fixtures.inline import Held, Inline, Places
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import envelope, eventually

#: Parked, and replayed in four pages, or in more.
PARKED = 3_500
#: A replay that is held must outlast its neighbours' patience with a transaction that does nothing.
_HELD = {"metrics_seconds": 0.1, "idle_in_transaction_ms": 60_000, "pause_share": 1}
_FIX = [{"drop": "/a"}]


def _replayed(scene: Scene) -> int:
    """How many attempts are committed."""
    return int(scene.ask("SELECT count(*) FROM onramp.replayed")[0][0])


def _start(admin: Service, scene: Scene) -> int:
    asked = {"kind": "replay", "filters": {"event_name": scene.name}, "fix": _FIX}
    who = {"actor": "ann", "reason": "no NUL"}
    answer = httpx2.post(f"{admin.url}/v1/jobs", json=asked | who, timeout=60)
    assert (answer.status_code, answer.json()["counted"]) == (202, PARKED), answer.text
    return int(answer.json()["id"])


def _require_small_pages(inline: Inline, places: Places, page: Held) -> None:
    """A page that is taken while a batch of live events is under way is a small one."""
    batch = places.hold_at("writer.before_group_commit")
    inline.send(1)
    batch.wait()
    beside = places.hold_at("writer.mid_replay")
    page.go_on()
    beside.wait()
    before = _replayed(inline)
    next_one = places.hold_at("writer.mid_replay")
    beside.go_on()
    next_one.wait()
    assert 0 < _replayed(inline) - before <= replay._AT_ONCE_DURING_LIVE
    next_one.go_on()
    batch.go_on()


def test_live_events_land_while_a_replay_of_many_is_under_way(
    inline: Scene, places: Places, tmp_path: Path
) -> None:
    writer: Inline = inline.writer(**_HELD)
    inline.send(5)
    inline.produce(*(envelope(f"bad-{n}", inline.name, b'{"a":"\\u0000","n":%d}' % n) for n in range(PARKED)))
    eventually(lambda: inline.totals().get("parked") == PARKED and inline.landed() == 5, 120)
    env = {"ONRAMP_WRITER_DSN": inline.dsn, "ONRAMP_WRITER_DATABASE": inline.database}
    where = {"bootstrap": inline.bootstrap, "dsn": inline.dsn, "log": tmp_path / "admin.log", "env": env}
    with started(services.admin(**where)) as admin:  # type: ignore[arg-type]
        groups = f"{admin.url}/v1/groups?event_name={inline.name}"
        eventually(
            lambda: [g["events"] for g in httpx2.get(groups, timeout=60).json()["groups"]] == [PARKED], 120
        )
        pages = [places.hold_at("writer.mid_replay")]
        job = _start(admin, inline)
        for page in range(3):
            pages[page].wait()  # its rows are written, and nothing of it is committed
            committed = _replayed(inline)
            assert page == 0 or 0 < committed <= page * replay._AT_ONCE
            inline.send(20)  # of the same type, into the same table
            eventually(lambda: inline.landed() == inline.accepted + committed)  # noqa: B023 - at once
            eventually(lambda: inline.group() == inline.settled())
            assert _replayed(inline) == committed
            if page < 2:
                pages.append(places.hold_at("writer.mid_replay"))
            else:
                _require_small_pages(inline, places, pages[page])
            pages[page].go_on()
        ended = f"{admin.url}/v1/jobs/{job}"
        eventually(lambda: httpx2.get(ended, timeout=60).json()["state"] == "done", 120)
    assert inline.totals() == {"landed": inline.accepted, "parked": PARKED, "replayed": PARKED}
    inline.audited()
    assert writer.exit is None
