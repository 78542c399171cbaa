"""Edited replays: an event keeps its id and receipt, records its editor, and obeys the current grants."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from stack import services
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import envelope, eventually, rows

BAD = b'{"price":"\\u0000", "n":1.10}'
GOOD = b'{ "price": 12345678901234567890.10,"n":1.10}'
BODY = {"content-type": "application/x-ndjson"}


class Desk:
    """The admin service with an operator's key, and the registry that it and the writer follow."""

    def __init__(self, scene: Scene, other: Other) -> None:
        self._scene, self._other = scene, other
        self.service: Service | None = None

    def register(self, *operators: str, into_other: bool = True) -> OwnRegistry:
        """These operators have keys, and events go to the other database or to the scene's own."""
        destination = {"type": "postgres"} | ({"vanity": self._other.name} if into_other else {})
        return self._scene.register(
            {
                "event_types": {self._scene.name: {"destinations": [destination]}},
                "operators": {name: self._operator(name) for name in operators},
            }
        )

    def ask(self, name: str, method: str, path: str, **more: Any) -> httpx2.Response:
        assert self.service is not None
        headers = {"authorization": f"Bearer {_key(name)}", **more.pop("headers", {})}
        return httpx2.request(method, f"{self.service.url}{path}", headers=headers, timeout=60, **more)

    def replay(self, name: str, edits: int) -> httpx2.Response:
        """Request the replay of an upload."""
        asked = {"kind": "replay", "filters": {"edits": edits}, "reason": "the price"}
        return self.ask(name, "POST", "/v1/jobs", json=asked)

    def ended(self, job: int) -> dict[str, Any]:
        """A job, once it has ended."""

        def found() -> dict[str, Any] | None:
            now: dict[str, Any] = self.ask("ann", "GET", f"/v1/jobs/{job}").json()
            return now if now["state"] == "done" else None

        done = eventually(found, 120)
        assert done is not None
        return done

    def event(self) -> dict[str, Any]:
        """The event as the service shows it."""
        listed = self.ask("ann", "GET", f"/v1/events?event_name={self._scene.name}").json()["events"]
        assert len(listed) == 1
        shown: dict[str, Any] = listed[0]
        return shown

    def _operator(self, name: str) -> dict[str, Any]:
        events = [self._scene.name] if name == "ann" else ["of_another_team"]
        digest = hashlib.sha256(_key(name).encode()).hexdigest()
        return {"role": "admin", "events": events, "hashes": [{"sha256": digest}]}


def _key(name: str) -> str:
    return f"onramp_{name}_{name * 12}"


@pytest.fixture
def desk(inline: Scene, other: Other, tmp_path: Path) -> Iterator[Desk]:
    """One event is parked in the other database, and stored."""
    desk = Desk(inline, other)
    registry = desk.register("ann", "bob")
    databases = orjson.dumps({other.name: other.dsn}).decode()
    inline.writer(registry=registry, databases=databases, metrics_seconds=0.1)
    inline.produce(envelope("bad-1", inline.name, BAD))
    parked = "SELECT sum(events)::int FROM onramp.totals WHERE outcome = 'parked'"
    eventually(lambda: _relation(other, "onramp.totals") and rows(other.dsn, parked) == [(1,)])
    env = {
        "ONRAMP_WRITER_DSN": inline.dsn,
        "ONRAMP_WRITER_DATABASE": inline.database,
        "ONRAMP_WRITER_DATABASES": databases,
        **registry.env,
    }
    admin = services.admin(bootstrap=inline.bootstrap, dsn=inline.dsn, log=tmp_path / "admin.log", env=env)
    with started(admin) as desk.service:
        path = f"/v1/events?event_name={inline.name}"
        eventually(lambda: len(desk.ask("ann", "GET", path).json()["events"]) == 1, 120)
        yield desk


def _relation(other: Other, name: str) -> bool:
    return rows(other.dsn, "SELECT to_regclass(%s) IS NOT NULL", name) == [(True,)]


def _edited(desk: Desk) -> bytes:
    """Download the event as ann, and edit its payload."""
    number = desk.event()["id"]
    asked = {"filters": {"event_id": "bad-1"}, "reason": "the price"}
    line = desk.ask("ann", "POST", "/v1/download", json=asked).content
    assert orjson.loads(line)["event"] == number
    assert BAD in line
    return line.replace(BAD, GOOD)


def test_an_edited_event_lands_with_its_id_its_lineage_and_by_the_rights_of_today(
    inline: Scene, other: Other, desk: Desk
) -> None:
    line = _edited(desk)
    other_id = line.replace(b'"bad-1"', b'"bad-2"')
    for name, body, why in (("ann", other_id, "event_id"), ("bob", line, "there is no event")):
        refused = desk.ask(name, "POST", "/v1/edits", content=body, headers=BODY)
        assert (refused.status_code, refused.json()["type"]) == (422, "/errors/bad_edits")
        assert why in refused.json()["detail"]
    edits = desk.ask("ann", "POST", "/v1/edits", content=line, headers=BODY).json()["edits"]
    assert desk.replay("bob", edits).status_code == 409  # for him the set has no event

    # The routes of today bring it elsewhere: an edit is no way round them.
    desk.register("ann", "bob", into_other=False)
    eventually(lambda: _routed_own(inline))
    failed = desk.ended(desk.replay("ann", edits).json()["id"])
    assert (failed["changed"], failed["failed"]) == (0, 1)
    assert [r["outcome"] for r in failed["results"]] == ["failed"]
    assert "current routes" in failed["results"][0]["reason"]

    desk.register("ann", "bob")
    table = f"events.{inline.name}"
    eventually(lambda: _routed_other(inline, other, table))
    job = desk.ended(desk.replay("ann", edits).json()["id"])
    assert (job["changed"], job["failed"], job["actor"]) == (1, 0, "ann")
    of_event = desk.event()
    place = (of_event["topic"], of_event["partition"], of_event["offset"])
    found = rows(
        other.dsn,
        f"SELECT _id, _topic, _partition, _offset, payload->>'price' FROM {table} WHERE _id LIKE 'bad%%'",  # noqa: S608
    )
    assert found == [("bad-1", *place, "12345678901234567890.10")]
    assert inline.query("SELECT _id FROM TABLE WHERE _id LIKE 'bad%%'") == []

    value = envelope("bad-1", inline.name, GOOD)
    attempts = rows(
        other.dsn,
        "SELECT attempt, outcome, job::text, sha256 FROM onramp.replayed ORDER BY attempt",
    )
    assert [(n, outcome) for n, outcome, _, _ in attempts] == [(1, "parked"), (2, "landed")]
    assert bytes(attempts[1][3]) == hashlib.sha256(value).digest()
    jobs = rows(inline.dsn, "SELECT uuid::text FROM onramp_admin.jobs ORDER BY id")
    assert [of for *_, of, _ in attempts] == [uuid for (uuid,) in jobs]
    assert of_event["state"] == "replayed"
    # What it was is kept, and who did what.
    number = of_event["id"]
    asked = {"reason": "what was it?"}
    shown = desk.ask("ann", "POST", f"/v1/events/{number}/reveal", json=asked)
    assert shown.content == envelope("bad-1", inline.name, BAD)
    acts = rows(inline.dsn, "SELECT actor, act FROM onramp_admin.acts WHERE act <> 'refused' ORDER BY id")
    assert acts == [("ann", act) for act in ("download", "edit", "start replay", "start replay", "reveal")]
    inline.audited(other)


@pytest.mark.full
def test_operator_removed_between_edit_and_replay_starts_no_job(desk: Desk, inline: Scene) -> None:
    edits = desk.ask("ann", "POST", "/v1/edits", content=_edited(desk), headers=BODY).json()["edits"]
    desk.register("bob")
    eventually(lambda: desk.ask("ann", "GET", "/v1/jobs").status_code == 401, 60)
    assert desk.replay("ann", edits).status_code == 401
    assert desk.replay("bob", edits).status_code == 409
    assert rows(inline.dsn, "SELECT count(*)::int FROM onramp_admin.jobs") == [(0,)]


def _routed_own(scene: Scene) -> bool:
    """Return whether the writer lands in the scene's own database now."""
    scene.send(1)
    return bool(_in_own(scene))


def _routed_other(scene: Scene, other: Other, table: str) -> bool:
    """Return whether the writer lands in the other database again; earlier events use the old routes."""
    scene.send(1)
    return _relation(other, table) and rows(other.dsn, f"SELECT _id FROM {table}") != []  # noqa: S608


def _in_own(scene: Scene) -> int:
    there = scene.ask("SELECT to_regclass(%s) IS NOT NULL", f"events.{scene.name}")
    return scene.landed() if there == [(True,)] else 0
