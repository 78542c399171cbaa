"""Edited events: download, edit with any program, upload; only payloads change, byte for byte."""

import io
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from services.admin.store import edits_sql
from services.admin.store.control_sql import transaction
from services.admin.store.jobs_sql import Plan
from services.cli.app import app
from shared.errors import BAD_EDITS, UserError
from tests.fixtures.writer import execute
from tests.integration.admin.admin_service import DIGESTS, Admin
from tests.integration.admin.job_bench import Desk
from tests.integration.admin.test_jobs import plant

VALUE = f"""
    INSERT INTO onramp_admin.bytes (event, value)
    SELECT id, '{{{{"metadata":{{{{"id":"e"}}}},"event_name":"x","payload":{{{{"n":1.10}}}}}}}}'
    FROM onramp_admin.events WHERE event_name = '{{name}}'; {DIGESTS}
"""  # noqa: S608 - our own words
WHY = {"actor": "ann", "reason": "prices"}


def _keep(desk: Desk, body: bytes, only: list[str] | None = None) -> int:
    with transaction(desk.dsn) as conn:
        return edits_sql.keep(conn, None, io.BytesIO(body), "ann", only)[0]


def _downloaded(desk: Desk) -> list[bytes]:
    with transaction(desk.dsn) as conn:
        events = edits_sql.ids(conn, {"event_name": desk.stage.name})
        return [line for page in edits_sql.pages(conn, events) for line in edits_sql.lines(conn, None, page)]


def test_exactly_the_edited_bytes_are_staged_also_when_they_are_staged_again(desk: Desk) -> None:
    found = _downloaded(desk)
    assert [orjson.loads(line)["event_id"] for line in found] == [f"e-{n}" for n in range(5)]
    edits = _keep(desk, b"".join(line.replace(b'{"a":"\\u0000"}', b'{ "n":1.10}') for line in found[:2]))
    job = desk.start(plan=Plan(is_edited=True), edits=edits)
    assert desk.job(job).counted == 2
    desk.work()
    desk.stage.execute('DELETE FROM onramp.replays WHERE "offset" = 0')  # the writer drops what is old
    desk.work()
    staged = desk.stage.rows('SELECT value, sha256 FROM onramp.replays ORDER BY "offset"')
    values = [bytes(value) for value, _ in staged]
    assert [b'"payload":{ "n":1.10}' in value and b"\\u0000" not in value for value in values] == [True, True]
    assert [bytes(digest) for _, digest in staged] == [sha256(value).digest() for value in values]
    desk.play("landed", 0, 1)
    desk.work()
    assert [state for _, state, _ in desk.states()] == ["replayed", "replayed", "open", "open", "open"]


def test_a_line_that_cannot_be_taken_is_named_and_none_of_the_others_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edits_sql, "_PAGE", 2)  # so that a batch's edits are there when the next one fails
    found = _downloaded(desk)
    number = orjson.loads(found[0])["event"]
    wrong = {
        b'{"event":999999,"payload":{}}\n': "line 4: there is no event",
        found[0]: "line 4: event \\d+ was on a line before",
        found[2]: "line 4: event \\d+ was on a line before",
        b"{\n": "line 4: the document is not JSON",
        found[3].replace(b'"e-3"', b'"e-9"'): "line 4: event_id: only a payload",
        b'{"event":%d,"payload":{"s":"\\ud800"}}\n' % orjson.loads(found[3])["event"]: "line 4: ",
    }
    for line, why in wrong.items():
        with pytest.raises(UserError, match=why) as refused:
            _keep(desk, b"".join(found[:3]) + line)
        assert refused.value.fault is BAD_EDITS
    with pytest.raises(UserError, match="line 1: there is none"):
        _keep(desk, b"\n")
    with pytest.raises(UserError, match="line 1: there is no event"):  # of another team
        _keep(desk, b'{"event":%d,"payload":{}}' % number, ["other_*"])
    with transaction(desk.dsn) as conn, conn.cursor() as cur:
        cur.execute("SELECT count(*) FROM onramp_admin.edits")
        assert cur.fetchone() == (0,)


@pytest.mark.parametrize("name", ["_PAGE", "_PAGE_BYTES"])
def test_pages_hold_few_events_and_together_all_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    whole = _downloaded(desk)
    monkeypatch.setattr(edits_sql, name, 1)
    assert _downloaded(desk) == whole
    edits = _keep(desk, b"".join(whole))
    assert desk.job(desk.start(plan=Plan(is_edited=True), edits=edits)).counted == 5


@pytest.fixture
def name(admin: Admin) -> str:
    """An event type with three events that have values."""
    name = plant(admin.dsn, 3)
    execute(admin.dsn, VALUE.format(name=name))
    return name


def _download(admin: Admin, **of: Any) -> Any:
    return admin.ask("POST", "/v1/download", json={**WHY, **of})


def _run(admin: Admin, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["errors", *arguments, "--admin", admin.service.url])


def test_a_download_is_all_events_of_a_filter_and_is_written_down(admin: Admin, name: str) -> None:
    answer = _download(admin, filters={"event_name": name})
    lines = [orjson.loads(line) for line in answer.content.splitlines()]
    assert (answer.headers["onramp-events"], [line["payload"] for line in lines]) == ("3", [{"n": 1.1}] * 3)
    assert b'"payload":{"n":1.10}' in answer.content
    [act, *_] = admin.get("/v1/audit-log", act="download", limit=1).json()["acts"]
    ids = [line["event"] for line in lines]
    assert (act["actor"], act["reason"]) == ("ann", "prices")
    assert act["subject"] == f"3 events ({ids[0]} to {ids[-1]})"


@pytest.mark.parametrize(
    "of", [{"filters": {}}, {"filters": {"code": "x"}, "reason": ""}, {"reason": "x"}, {"filters": {"x": 1}}]
)
def test_a_download_without_a_filter_or_a_reason_is_refused(admin: Admin, of: dict[str, Any]) -> None:
    answer = _download(admin, **of)
    assert (answer.status_code // 100, answer.headers["content-type"]) == (4, "application/problem+json")


@pytest.mark.parametrize("body", [b"", b"no json", b"\xff", b'{"event":1e9,"payload":{}}', b"[" * 100_000])
def test_a_file_that_is_none_is_refused_with_its_line(admin: Admin, body: bytes) -> None:
    answer = admin.ask("POST", "/v1/edits?actor=ann", content=body)
    assert (answer.status_code, answer.json()["type"]) == (422, "/errors/bad_edits")
    assert answer.json()["detail"].startswith("line 1: ")


@pytest.mark.parametrize("query", ["", "?actor=", "?actor=a%00", "?actor=a&more=1", f"?actor={'a' * 600}"])
def test_edits_without_a_valid_actor_or_with_an_unknown_parameter_are_refused(
    admin: Admin, query: str
) -> None:
    answer = admin.ask("POST", f"/v1/edits{query}", content=b'{"event":1,"payload":{}}')
    assert (answer.status_code, answer.json()["type"]) == (422, "/errors/bad_query")


def test_the_command_line_downloads_sends_back_and_counts_what_was_edited(
    admin: Admin, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "events.ndjson"
    arguments = ("download", "--event", name, "--reason", "prices")
    assert _run(admin, *arguments, "--out", str(file)).exit_code == 0
    assert _run(admin, *arguments, "--out", str(file)).exit_code != 0  # nothing is overwritten
    assert _run(admin, *arguments).stdout_bytes == file.read_bytes()
    lines = file.read_bytes().replace(b"1.10", b"2.50").splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[2])
    counted = _run(admin, "replay", "--edited", str(file), "--reason", "x", "--dry-run", "--json")
    assert orjson.loads(counted.stdout)["events"] == 0  # their database is not this service's
    assert admin.rows(f"SELECT convert_from(payload, 'UTF8') FROM onramp_admin.edits JOIN onramp_admin.events e ON e.id = event WHERE event_name = '{name}'") == [('{"n":2.50}',)] * 2  # fmt: skip # noqa: S608, E501
    file.write_bytes(b"{}\n")
    refused = _run(admin, "replay", "--edited", str(file), "--reason", "x", "--dry-run")
    assert (refused.exit_code, "line 1: " in refused.stderr) == (1, True)
