"""Events edited by hand, from end to end: downloaded, changed by sed, sent back, rehearsed, landed."""

import asyncio
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.audit.run import Request, audit
from services.ops.findings import Code
from shared.kafka_security import Brokers
from stack import services
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import envelope, eventually, execute

BAD = b'{"price":"\\u0000", "n":1.10}'
GOOD = b'{"price":"12,50", "n":1.10}'


class Desk:
    """`onramp errors` with an admin service that has stored two parked events."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder

    def told(self, *verb: str) -> dict[str, Any]:
        """Return the output of a verb, which must succeed."""
        result = CliRunner().invoke(app, ["errors", *verb, "--admin", self._url, "--json"])
        assert result.exit_code == 0, result.output
        said: dict[str, Any] = json.loads(result.stdout)
        return said

    def edited(self, event_id: str) -> str:
        """Download an event and change it; return the file."""
        file = self._folder / f"{event_id}.ndjson"
        verb = ["errors", "download", "--id", event_id, "--reason", "prices", "--out", str(file)]
        result = CliRunner().invoke(app, [*verb, "--admin", self._url])
        assert result.exit_code == 0, result.output
        subprocess.run(["sed", "-i", r"s/\\u0000/12,50/", str(file)], check=True)
        return str(file)

    def landed(self, *how: str) -> None:
        """Rehearse one event, which would land, and replay that rehearsal."""
        rehearsed = self.told("rehearse", *how)
        assert [(r["outcome"], r["events"]) for r in rehearsed["results"]] == [("landed", 1)]
        number = str(rehearsed["id"])
        job = str(self.told("replay", "--rehearsed", number, "--reason", "prices", "--yes")["id"])
        done = eventually(
            lambda: found if (found := self.told("jobs", job))["state"] == "done" else None, 120
        )
        assert (done["changed"], done["failed"]) == (1, 0), done


@pytest.fixture
def desk(inline: Scene, tmp_path: Path) -> Iterator[Desk]:
    inline.writer(metrics_seconds=0.1)
    inline.send(1)
    inline.produce(*(envelope(f"{inline.name}-bad-{n}", inline.name, BAD) for n in range(2)))
    eventually(lambda: inline.totals().get("parked") == 2)
    env = {"ONRAMP_WRITER_DSN": inline.dsn, "ONRAMP_WRITER_DATABASE": inline.database}
    admin = services.admin(bootstrap=inline.bootstrap, dsn=inline.dsn, log=tmp_path / "admin.log", env=env)
    with started(admin) as service:
        desk = Desk(service.url, tmp_path)
        eventually(lambda: _kept(inline) == 2, 120)
        yield desk


def _kept(inline: Scene) -> int:
    there = inline.ask("SELECT to_regclass('onramp_admin.events') IS NOT NULL")
    if there != [(True,)]:
        return 0
    return int(
        inline.ask(f"SELECT count(*)::int FROM onramp_admin.events WHERE event_name = '{inline.name}'")[0][0]  # noqa: S608
    )


@pytest.mark.full
def test_edited_events_land_as_they_were_sent_back_one_of_them_in_another_table(
    inline: Scene, desk: Desk
) -> None:
    home, elsewhere = f"events.{inline.name}", f"events.by_hand_{inline.name}"
    execute(inline.dsn, f"CREATE TABLE {elsewhere} (LIKE {home} INCLUDING ALL)")
    ids = [f"{inline.name}-bad-{n}" for n in range(2)]
    desk.landed("--edited", desk.edited(ids[0]))
    desk.landed("--edited", desk.edited(ids[1]), "--to", elsewhere)

    statement = "SELECT _id, payload->>'price', payload->>'n' FROM {} WHERE payload ? 'price'"
    assert inline.ask(statement.format(home)) == [(ids[0], "12,50", "1.10")]
    assert inline.ask(statement.format(elsewhere)) == [(ids[1], "12,50", "1.10")]
    landed = inline.ask(
        "SELECT \"to\", sha256 FROM onramp.replayed WHERE outcome = 'landed' ORDER BY attempt, 1"
    )
    digests = [hashlib.sha256(envelope(each, inline.name, GOOD)).digest() for each in ids]
    assert {(to, bytes(digest)) for to, digest in landed} == {(None, digests[0]), (elsewhere, digests[1])}
    assert inline.totals() == {"landed": 1, "parked": 2, "replayed": 2}
    assert _corrupt(inline) == set()
    for table, event_id in ((home, ids[0]), (elsewhere, ids[1])):
        change = f"UPDATE {table} SET payload = payload || '{{}}' WHERE _id = '{event_id}'"  # noqa: S608
        execute(inline.dsn, change.format('{"n": 2}'))
        assert _corrupt(inline) == {table}
        execute(inline.dsn, change.format('{"n": 1.10}'))
    assert _corrupt(inline) == set()


def _corrupt(inline: Scene) -> set[str]:
    """The tables in which the audit finds a row that differs from the edit; it has no other finding."""
    databases = {inline.database: inline.dsn}
    where = Request(
        Brokers(inline.bootstrap), databases, re.escape(inline.topic), deep=True, control=inline.dsn
    )
    report = asyncio.run(audit(where))
    assert report.unchecked == []
    details = [f.detail for f in report.findings if f.code is Code.CORRUPT and "edit" in f.detail]
    assert len(details) == len(report.findings), report.findings
    return {detail.removeprefix(f"the row of {inline.database}.").partition(" ")[0] for detail in details}
