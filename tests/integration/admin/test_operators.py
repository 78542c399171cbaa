"""Operators over HTTP: the registry limits what each sees and does, and the audit log names the operator."""

import re
import secrets
from pathlib import Path
from typing import Any

import httpx2
import orjson
import psycopg2
import pytest
from typer.testing import CliRunner

from services.cli.app import app
from tests.fixtures.writer import eventually, execute
from tests.integration.admin.admin_service import refused
from tests.integration.admin.operator_service import OPERATORS, Guarded, key_of, registry

#: What asks for something, of every kind.
ROUTES = [
    ("GET", "/v1/groups"),
    ("GET", "/v1/groups/1"),
    ("PATCH", "/v1/groups/1"),
    ("GET", "/v1/events"),
    ("GET", "/v1/events/1"),
    ("POST", "/v1/events/1/reveal"),
    ("POST", "/v1/jobs"),
    ("POST", "/v1/download"),
    ("POST", "/v1/edits"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/1"),
    ("POST", "/v1/jobs/1/cancel"),
    ("GET", "/v1/audit-log"),
    ("GET", "/v1/counts"),
    ("GET", "/v1/segments"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/nothing"),
]
REHEARSAL = """
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, counted, state)
    VALUES ('rehearse', '{"code": "planted"}', 100, 'otto', 'x', 0, 'done')
"""
REVEAL = {"reason": "the sender asks"}
#: Edited payloads of all events that are named order_lost.
UPLOAD = """
    WITH upload AS (INSERT INTO onramp_admin.uploads (actor) VALUES ('olga') RETURNING id)
    INSERT INTO onramp_admin.edits (upload, event, payload)
    SELECT upload.id, e.id, '{}' FROM upload, onramp_admin.events e WHERE event_name = 'order_lost'
"""


def _only(guarded: Guarded, name: str | None) -> list[int]:
    """The ids of events of one name."""
    found = guarded.rows("SELECT id, event_name FROM onramp_admin.events ORDER BY id")
    return [number for number, event_name in found if event_name == name]


def test_download_has_only_the_admins_own_events_and_is_refused_to_lower_roles(guarded: Guarded) -> None:
    asked = {"filters": {"code": "planted"}, **REVEAL}
    for name in ("vera", "otto", "olga"):
        refused(guarded.of(name).ask("POST", "/v1/download", json=asked), 403, "not_allowed")
    refused(guarded.of("vera").ask("POST", "/v1/edits"), 403, "not_allowed")
    seen = guarded.of("adam").ask("POST", "/v1/download", json=asked).content.splitlines()
    wanted = sorted(_only(guarded, "order_made") + _only(guarded, "order_lost"))
    assert [orjson.loads(line)["event"] for line in seen] == wanted
    body = b'{"event":%d,"payload":{}}' % _only(guarded, "pay_made")[0]
    said = refused(guarded.of("olga").ask("POST", "/v1/edits", content=body), 422, "bad_edits")
    assert said["detail"] == "line 1: there is no event of this number"


def _group(guarded: Guarded, name: str) -> int:
    [number] = [n for n, of in guarded.rows("SELECT id, event_name FROM onramp_admin.groups") if of == name]
    return int(number)


def _acts(guarded: Guarded, **filters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = guarded.of("ada").get("/v1/audit-log", **filters).json()["acts"]
    return found


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nothing_is_answered_without_a_key_that_is_valid_now(
    guarded: Guarded, method: str, path: str
) -> None:
    good = f"Bearer {key_of('ada')}"
    for given in ({}, {"authorization": good + "x"}, {"authorization": f"Bearer {key_of('eve')}"}):
        said = refused(guarded.ask(method, path, headers=given), 401, "unauthenticated")
        assert said["detail"] == "no valid key was given"
    with httpx2.Client(base_url=guarded.service.url, timeout=60) as client:
        twice = client.request(method, path, headers=[("authorization", good), ("authorization", good)])
    refused(twice, 401, "unauthenticated")
    in_url = guarded.ask(method, path, params={"key": key_of("ada"), "authorization": good})
    assert (in_url.status_code, in_url.headers["www-authenticate"]) == (401, "Bearer")
    refused(guarded.of("shop").ask(method, path), 403, "not_allowed")


def test_how_the_service_is_says_nothing_of_events_without_a_key(guarded: Guarded) -> None:
    assert guarded.get("/healthz").json() == {"status": "alive"}
    eventually(lambda: guarded.get("/readyz").json() == {"ingester": "active"}, 120)
    assert set(guarded.of("olga").get("/readyz").json()) == {"ingester"}
    assert set(guarded.of("vera").get("/readyz").json()) == {"ingester", "reason", "stored", "behind"}


def test_metrics_require_a_key_that_sees_all_events(guarded: Guarded) -> None:
    eventually(lambda: guarded.get("/readyz").json() == {"ingester": "active"}, 120)
    assert [guarded.of(name).get("/metrics").status_code for name in ("", "olga", "vera")] == [401, 403, 200]
    shown = guarded.of("vera").get("/metrics").text
    assert 'onramp_admin_ingester_state{state="active"} 1.0' in shown
    assert 'onramp_admin_ingester_state{state="waiting"} 0.0' in shown
    assert eventually(lambda: 'onramp_admin_behind_records{topic="onramp.user_errors"}' in _metrics(guarded))
    eventually(lambda: f"onramp_admin_stored_events_total {float(_kept(guarded))}" in _metrics(guarded))


def _kept(guarded: Guarded) -> int:
    return int(guarded.of("vera").get("/readyz").json()["stored"])


def _metrics(guarded: Guarded) -> str:
    return guarded.of("vera").get("/metrics").text


def test_a_viewer_sees_an_operator_acts_an_admin_reads_values(guarded: Guarded) -> None:
    event, group = _only(guarded, "pay_made")[0], _group(guarded, "pay_made")
    for name in ("vera", "otto", "ada"):
        assert len(guarded.of(name).events(code="planted")) == 16
        assert guarded.of(name).get(f"/v1/events/{event}").json()["shape"] == "aaaaaaa"
    acts = [
        ("POST", "/v1/jobs", {"kind": "discard", "filters": {"code": "x"}, "reason": "x", "dry_run": True}),
        ("PATCH", f"/v1/groups/{group}", {"assignee": "otto"}),
        ("POST", "/v1/jobs/999999/cancel", {}),
    ]
    for method, path, body in acts:
        any_state = {"json": body, "headers": {"if-match": "*"}}
        refused(guarded.of("vera").ask(method, path, **any_state), 403, "not_allowed")
        assert guarded.of("otto").ask(method, path, **any_state).status_code in {200, 202, 404}
    for name in ("vera", "otto"):
        refused(guarded.of(name).ask("POST", f"/v1/events/{event}/reveal", json=REVEAL), 403, "not_allowed")
        refused(guarded.of(name).get("/v1/audit-log"), 403, "not_allowed")
    shown = guarded.of("ada").ask("POST", f"/v1/events/{event}/reveal", json=REVEAL)
    assert shown.content == b'"private"'


def test_reveal_requires_a_reason_and_its_audit_log_row_cannot_be_changed(guarded: Guarded) -> None:
    event = _only(guarded, "order_made")[1]
    for wrong in ({}, {"reason": ""}):
        answer = guarded.of("ada").ask("POST", f"/v1/events/{event}/reveal", json=wrong)
        refused(answer, 422, "bad_query")
        assert b"private" not in answer.content
    guarded.of("adam").ask("POST", f"/v1/events/{event}/reveal", json=REVEAL | {"actor": "somebody"})
    [act] = _acts(guarded, subject=f"event {event}")
    assert (act["actor"], act["act"], act["reason"]) == ("adam", "reveal", REVEAL["reason"])
    for change in ("UPDATE onramp_admin.acts SET actor = 'x'", "DELETE FROM onramp_admin.acts"):
        with pytest.raises(psycopg2.errors.RaiseException):
            execute(guarded.dsn, change)
    with pytest.raises(psycopg2.errors.RaiseException):
        execute(guarded.dsn, "TRUNCATE onramp_admin.acts")
    refused(guarded.of("adam").get("/v1/audit-log"), 403, "not_allowed")


def _refused(guarded: Guarded, name: str) -> int:
    """How many requests of an operator were refused."""
    return sum(act["events"] for act in _acts(guarded, actor=name, act="refused"))


def test_refusals_of_an_operator_are_logged_as_a_single_row_per_minute_with_a_count(guarded: Guarded) -> None:
    vera, before = guarded.of("vera"), _acts(guarded, actor="vera", act="refused")
    counted = _refused(guarded, "vera")
    for n in range(20):
        refused(vera.ask("POST", f"/v1/events/{n + 1}/reveal", json=REVEAL), 403, "not_allowed")
    refused(vera.get("/v1/types/order%00x"), 422, "bad_query")
    refused(vera.get("/v1/groups/999998"), 404, "not_stored")
    assert _refused(guarded, "vera") == counted + 21
    assert len(_acts(guarded, actor="vera", act="refused")) <= len(before) + 2  # a minute may have ended
    for change in ("events = events - 1", "events = events + 1, subject = 'x'", "minute = NULL"):
        with pytest.raises(psycopg2.errors.RaiseException):
            execute(guarded.dsn, f"UPDATE onramp_admin.acts SET {change} WHERE minute IS NOT NULL")  # noqa: S608
    with pytest.raises(psycopg2.errors.RaiseException):
        execute(guarded.dsn, "UPDATE onramp_admin.acts SET events = events + 1 WHERE minute IS NULL")


def test_a_path_of_any_length_is_refused_and_written_down(guarded: Guarded) -> None:
    path = f"/v1/keys/{secrets.token_hex(8_000)}/revoke"
    for name in ("vera", "pia"):
        refused(guarded.of(name).ask("POST", path, params={"reason": "x"}), 403, "not_allowed")
    subjects = guarded.rows("SELECT subject FROM onramp_admin.acts WHERE actor = 'pia' AND act = 'refused'")
    assert subjects


def test_lists_groups_and_ids_show_an_operator_its_own_events_alone(guarded: Guarded) -> None:
    olga, pia = guarded.of("olga"), guarded.of("pia")
    assert {e["event_name"] for e in olga.events()} == {"order_made", "order_lost"}
    assert {g["cause"]["event_name"] for g in olga.groups()} == {"order_made", "order_lost"}
    assert [e["event_name"] for e in pia.events(code="planted")] == ["pay_made"] * 4
    assert (olga.events(event_name="pay_made"), pia.groups(event_name="order_made")) == ([], [])
    group, event = _group(guarded, "pay_made"), _only(guarded, "pay_made")[0]
    nameless = _only(guarded, None)[0]
    assert olga.events(group=group) == []
    counts = olga.get("/v1/counts").json()["counts"]
    assert sorted((c["event_name"], c["events"]) for c in counts) == [("order_lost", 4), ("order_made", 4)]
    assert [p["event_name"] for p in olga.get("/v1/segments").json()["parts"]] == ["order_made"]
    for method, path, body in (
        ("GET", f"/v1/groups/{group}", None),
        ("PATCH", f"/v1/groups/{group}", {"reason": "x", "state": "ignored"}),
        ("GET", f"/v1/events/{event}", None),
        ("GET", f"/v1/events/{nameless}", None),
        ("POST", f"/v1/events/{event}/reveal", {"reason": "x"}),
    ):
        asking, asked = guarded.of("adam"), {"json": body, "headers": {"if-match": "*"}}
        before = _refused(guarded, "adam")
        hidden = refused(asking.ask(method, path, **asked), 404, "not_stored")
        parts = path.split("/")
        nowhere = "/".join([*parts[:3], "999999", *parts[4:]])
        assert asking.ask(method, nowhere, **asked).json() == hidden  # no word tells them apart
        assert _refused(guarded, "adam") == before + 2
    assert guarded.of("ada").get(f"/v1/groups/{group}").json()["state"] == "open"


def test_cursor_of_an_operator_with_other_visible_events_is_refused(guarded: Guarded) -> None:
    cursors = {name: guarded.of(name).get("/v1/events", limit=1).json()["next"] for name in OPERATORS}
    for name in ("olga", "pia", "ada"):
        for other, cursor in cursors.items():
            answer = guarded.of(name).get("/v1/events", limit=1, cursor=cursor)
            assert answer.status_code == (200 if OPERATORS[name][1] == OPERATORS[other][1] else 400)
    refused(guarded.of("olga").get("/v1/events", only="*"), 422, "bad_query")
    refused(guarded.of("olga").start("discard", filters={"only": ["*"]}), 422, "bad_query")


def test_a_job_counts_and_changes_what_its_operator_sees_and_others_do_not_see_it(guarded: Guarded) -> None:
    olga, otto = guarded.of("olga"), guarded.of("otto")
    counted = olga.start("discard", dry_run=True).json()
    assert (counted["events"], counted["upto"]) == (8, max(_only(guarded, "order_lost")))
    assert olga.start("discard", dry_run=True, filters={"group": _group(guarded, "pay_made")}).json() == {
        "kind": "discard",
        "events": 0,
        "upto": counted["upto"],
    }
    job = olga.start("discard", actor="otto").json()
    eventually(lambda: olga.get(f"/v1/jobs/{job['id']}").json()["state"] == "done", 120)
    found = guarded.rows("SELECT DISTINCT event_name FROM onramp_admin.events WHERE state = 'discarded'")
    assert {name for (name,) in found} == {"order_made", "order_lost"}
    assert olga.get(f"/v1/jobs/{job['id']}").json()["actor"] == "olga"
    everything = otto.start("discard", rate=1).json()
    named = otto.start("restore", filters={"event_name": "order_made"}).json()
    assert [j["id"] for j in olga.get("/v1/jobs").json()["jobs"]] == [named["id"], job["id"]]
    assert guarded.of("pia").get("/v1/jobs").json() == {"jobs": [], "next": None}
    assert [j["id"] for j in guarded.of("adam").get("/v1/jobs").json()["jobs"]] == [named["id"], job["id"]]
    for path in (f"/v1/jobs/{everything['id']}", "/v1/jobs/999999"):
        hidden = refused(olga.get(path), 404, "not_stored")
        assert refused(olga.ask("POST", f"{path}/cancel", json={}), 404, "not_stored") == hidden
    assert otto.get(f"/v1/jobs/{everything['id']}").json()["state"] != "cancelled"
    execute(guarded.dsn, REHEARSAL)
    last = otto.get("/v1/jobs").json()["jobs"][0]
    rehearsal = {"kind": "replay", "reason": "x", "rehearsed": last["id"]}
    assert otto.ask("POST", "/v1/jobs", json=rehearsal).status_code == 409  # nothing can be replayed here
    answer = olga.ask("POST", "/v1/jobs", json=rehearsal)
    assert refused(answer, 404, "not_stored")["detail"] == "there is no rehearsal of this id"
    assert _acts(guarded, subject=f"job {everything['id']}", act="cancel") == []


@pytest.mark.parametrize("kind", ["replay", "rehearse"])
def test_an_operator_for_some_events_names_only_tables_in_which_those_land(
    guarded: Guarded, kind: str
) -> None:
    olga, otto = guarded.of("olga"), guarded.of("otto")
    for table in ("public.secrets", "events.pay_made", "public.order_made"):
        assert otto.start(kind, dry_run=True, to=table).status_code == 202
        said = refused(olga.start(kind, dry_run=True, to=table), 403, "not_allowed")
        assert said["detail"].startswith(f"to: this key is for some events, and {table} takes others too")
    assert olga.start(kind, dry_run=True, to="events.order_other").status_code == 202
    if kind == "replay":  # of another's rehearsal, which only had events that she sees
        statement = REHEARSAL.replace('"code": "planted"', '"event_name": "order_made"')
        execute(
            guarded.dsn,
            statement.replace("state)", 'state, "to")').replace("'done'", "'done', 'public.secrets'"),
        )
        last = otto.get("/v1/jobs").json()["jobs"][0]
        rehearsal = {"kind": kind, "reason": "x", "rehearsed": last["id"]}
        refused(olga.ask("POST", "/v1/jobs", json=rehearsal), 403, "not_allowed")


@pytest.mark.parametrize("kind", ["replay", "rehearse"])
def test_an_operator_for_some_events_edits_only_payloads_that_land_in_tables_of_those(
    guarded: Guarded, kind: str
) -> None:
    olga, otto, fix = guarded.of("olga"), guarded.of("otto"), [{"drop": "/a"}]
    destination = "UPDATE onramp_admin.parked SET destination = '{}' WHERE event_name = 'order_lost'"
    execute(guarded.dsn, UPLOAD)
    [(upload,)] = guarded.rows("SELECT max(id) FROM onramp_admin.uploads")
    execute(guarded.dsn, destination.format(""))  # refused: it lands where its type says today
    shared = {"destinations": [{"schema": "public", "table": "shared"}]}
    types = {"event_types": {"order_lost": shared, "pay_made": shared}}
    edits: list[dict[str, Any]] = [{"fix": fix}, {"filters": {"edits": upload}}]
    try:
        assert [olga.start(kind, dry_run=True, **edit).status_code for edit in edits] == [202, 202]
        guarded.registry.put(registry(*OPERATORS, expired="eve") | types)
        eventually(lambda: olga.start(kind, dry_run=True, fix=fix).status_code == 403, 60)
        for edit in edits:
            assert otto.start(kind, dry_run=True, **edit).status_code == 202
            said = refused(olga.start(kind, dry_run=True, **edit), 403, "not_allowed")
            assert "public.shared, which takes others too" in said["detail"]
        of_others = {"event_name": "order_made"}
        assert olga.start(kind, dry_run=True, fix=fix, filters=of_others).status_code == 202
        assert olga.start(kind, dry_run=True).status_code == 202
    finally:
        guarded.registry.put(registry(*OPERATORS, expired="eve") | {"event_types": {}})
        eventually(lambda: olga.start(kind, dry_run=True, fix=fix).status_code == 202, 60)
        execute(guarded.dsn, destination.format("d"))


def _cli(guarded: Guarded, *arguments: str, **env: str) -> Any:
    address = ["--admin", guarded.service.url]
    return CliRunner().invoke(app, ["errors", *arguments, *address], env=env)


def test_the_command_line_has_the_key_from_a_file_or_the_environment(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONRAMP_ADMIN_KEY", raising=False)
    nobody = _cli(guarded, "groups")
    assert (nobody.exit_code, "The API key is missing" in nobody.stderr) == (1, True)
    assert len(_cli(guarded, "list", ONRAMP_ADMIN_KEY=key_of("pia")).stdout.splitlines()) == 5
    file = tmp_path / "ada.key"
    file.write_text(f"{key_of('ada')}\n")
    acts = CliRunner().invoke(
        app, ["errors", "--key-file", str(file), "acts", "--act", "refused", "--admin", guarded.service.url]
    )
    assert (acts.exit_code, bool(re.search("  vera +refused  ", acts.stdout))) == (0, True)
    away = CliRunner().invoke(
        app,
        ["errors", "groups", "--admin", "http://admin.example:8082"],
        env={"ONRAMP_ADMIN_KEY": key_of("pia")},
    )
    assert (away.exit_code, "https://" in away.stderr) == (1, True)
    assert key_of("pia") not in away.stderr
    none = CliRunner().invoke(app, ["errors", "--key-file", "/nowhere", "groups"])
    assert none.exit_code == 2


def test_no_key_is_in_the_log(guarded: Guarded) -> None:
    assert "onramp_" + "ada" not in guarded.service.log.read_text()


def test_removed_operator_is_refused_and_an_empty_operator_list_refuses_every_request(
    guarded: Guarded,
) -> None:
    guarded.registry.put(registry(*(name for name in OPERATORS if name != "vera")))
    eventually(lambda: guarded.of("vera").get("/v1/groups").status_code == 401, 60)
    assert guarded.of("ada").get("/v1/groups").status_code == 200
    guarded.registry.put({"keys": {}, "operators": {}})
    eventually(lambda: guarded.of("ada").get("/v1/groups").status_code == 401, 60)
    assert guarded.get("/v1/groups").status_code == 401
