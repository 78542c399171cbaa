"""A replay from end to end: parked, stored, cause fixed, replayed by admin service and writer."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
from typer.testing import CliRunner

from services.cli.app import app
from stack import services
from stack.services import Service
from tests.fixtures.inline import Inline
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import event, eventually, execute

REJECT = """
    CREATE FUNCTION events.reject_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.payload ? 'bad' THEN RAISE EXCEPTION 'no'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER reject BEFORE INSERT ON events.{name} FOR EACH ROW EXECUTE FUNCTION events.reject_{name}()
"""


FIX = '[{"rename":"/bad","to":"/was"},{"default":"/price","value":1.10}]'
P0001 = re.compile(r"^ +20 +failed +.*SQLSTATE P0001", re.MULTILINE)


def _get(service: Service, path: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx2.get(f"{service.url}{path}", timeout=60).json()
    return found


def _start(service: Service, **of: Any) -> int:
    asked = {"kind": "replay", "actor": "ann", "reason": "fixed", **of}
    job: int = httpx2.post(f"{service.url}/v1/jobs", json=asked, timeout=60).json()["id"]
    return job


def _said(service: Service, *arguments: str) -> str:
    """The output of the command line."""
    return CliRunner().invoke(app, ["errors", *arguments, "--admin", service.url]).stdout


def test_parked_events_are_replayed_once_though_the_admin_service_is_killed(
    inline: Scene, tmp_path: Path
) -> None:
    writer: Inline = inline.writer(metrics_seconds=0.1)
    inline.send(5)
    eventually(lambda: inline.landed() == 5)
    execute(inline.dsn, REJECT.format(name=inline.name))
    inline.produce(*(event(f"bad-{n}", inline.name, bad=n) for n in range(20)))
    eventually(lambda: inline.totals().get("parked") == 20)
    inline.send(5)
    eventually(lambda: inline.landed() == 10)

    env = {"ONRAMP_WRITER_DSN": inline.dsn, "ONRAMP_WRITER_DATABASE": inline.database}
    where = {"bootstrap": inline.bootstrap, "dsn": inline.dsn}
    with started(services.admin(**where, log=tmp_path / "first.log", env=env)) as admin:
        groups = f"/v1/groups?event_name={inline.name}"
        eventually(lambda: [g["events"] for g in _get(admin, groups)["groups"]] == [20], 120)
        rehearse = ("rehearse", "--event", inline.name)
        assert re.search(r"^ +20  triggers +table \S+ has triggers", _said(admin, *rehearse), re.MULTILINE)
        assert P0001.search(_said(admin, *rehearse, "--with-triggers"))
        early = _start(admin, filters={"event_name": inline.name})
        eventually(lambda: _get(admin, f"/v1/jobs/{early}")["state"] == "done", 120)
        assert P0001.search(_said(admin, "jobs", str(early)))
        assert "20 failed again" in _said(admin, "jobs")
        # A fix edits the payload of one alone, and it lands though the trigger is there.
        fix = ("--id", "bad-0", "--fix", FIX, "--with-triggers", "--json")
        told = json.loads(_said(admin, *rehearse, *fix))
        assert [(r["outcome"], r["events"]) for r in told["results"]] == [("landed", 1)]
        replay = ("replay", "--rehearsed", str(told["id"]), "--reason", "renamed", "--yes", "--json")
        fixed = json.loads(_said(admin, *replay))["id"]
        eventually(lambda: _get(admin, f"/v1/jobs/{fixed}")["state"] == "done", 120)
        edited = inline.ask(
            f"SELECT payload, d.sha256 IS NOT NULL FROM events.{inline.name} JOIN onramp.replayed d "  # noqa: S608
            "ON (topic, partition, \"offset\") = (_topic, _partition, _offset) WHERE outcome = 'landed'"
        )
        assert edited == [({"was": 0, "price": 1.1}, True)]
        # The writer's doing ends before the fault does: nobody is replayed while the trigger is there.
        execute(inline.dsn, f"DROP TRIGGER reject ON events.{inline.name}")
        rehearsed = json.loads(_said(admin, *rehearse, "--json"))
        assert [(r["outcome"], r["events"]) for r in rehearsed["results"]] == [("landed", 19)]
        assert (len(rehearsed["samples"]), inline.landed()) == (10, 11)

    doomed = services.admin(
        **where, log=tmp_path / "doomed.log", env=env | {"ONRAMP_FAILPOINTS": "admin.mid_job=kill"}
    )
    doomed.start()
    doomed.wait_ready()
    job = _start(doomed, rehearsed=rehearsed["id"])
    eventually(lambda: not doomed.child.running, 120)

    with started(services.admin(**where, log=tmp_path / "next.log", env=env)) as admin:
        eventually(lambda: _get(admin, f"/v1/jobs/{job}")["state"] == "done", 120)
        done = _get(admin, f"/v1/jobs/{job}")
        states = {e["state"] for e in _get(admin, f"/v1/events?event_name={inline.name}")["events"]}
    assert (done["counted"], done["changed"], done["failed"]) == (19, 19, 0)
    assert states == {"replayed"}
    assert inline.landed() == 30
    assert inline.totals() == {"landed": 10, "parked": 20, "replayed": 20}
    assert inline.ask("SELECT outcome, count(*)::int FROM onramp.replayed GROUP BY 1 ORDER BY 1") == [
        ("landed", 20), ("parked", 20)
    ]  # fmt: skip
    inline.audited()
    assert writer.exit is None
