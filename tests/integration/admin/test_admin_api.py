"""Admin API over its socket: errors are problem documents, and forged cursors and paths are refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from services.admin.store.control_sql import MAX_CONNECTIONS
from services.cli.app import app
from shared.mask import masked
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import eventually, execute
from tests.integration.admin.admin_service import DIGESTS, Admin, refused

#: 25 groups with one event each, two of them seen at the same time; the ingester is not asked.
GROUPS = """
    INSERT INTO onramp_admin.groups (fingerprint, version, code, event_name, events, first_seen, last_seen)
    SELECT decode(md5(n::text), 'hex'), 1, 'planted', 'planted_' || n % 2, 1, now(),
           '2026-01-01T00:00:00Z'::timestamptz + n / 2 * interval '1 second'
    FROM generate_series(1, 25) n;
    INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_id, event_name, parked_at, reason, size)
    SELECT '00000000-0000-0000-0000-000000000000', 't', 0, id, '<script>', id, 'planted', 'e\x1b[2J' || id,
           event_name, last_seen, '{"detail":"\\u0000<script>"}', 3
    FROM onramp_admin.groups WHERE code = 'planted';
    INSERT INTO onramp_admin.bytes SELECT id, '\\x6e6f00' FROM onramp_admin.events WHERE code = 'planted'
"""

ANY = {"if-match": "*"}


@pytest.fixture(scope="module")
def admin(admin: Admin) -> Admin:
    execute(admin.dsn, f"{GROUPS}; {DIGESTS}")
    return admin


@pytest.mark.parametrize("listed", ["groups", "events"])
def test_pages_follow_each_other_without_a_gap_or_a_repeat(admin: Admin, listed: str) -> None:
    seen: list[int] = []
    query: dict[str, Any] = {"code": "planted", "limit": 7}
    while True:
        page = admin.get(f"/v1/{listed}", **query).json()
        seen += [each["id"] for each in page[listed]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert len(seen) == 25
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize("limit", ["-1", "0", "1000000000", "abc"])
def test_a_limit_has_bounds(admin: Admin, limit: str) -> None:
    said = refused(admin.get("/v1/groups", limit=limit), 422, "bad_query")
    assert [e["place"] for e in said["errors"]] == ["query/limit"]


def test_a_cursor_that_was_changed_or_is_of_another_list_is_refused(admin: Admin) -> None:
    cursor = admin.get("/v1/groups", code="planted", limit=2).json()["next"]
    assert admin.get("/v1/groups", code="planted", limit=3, cursor=cursor).status_code == 200
    other = "B" if cursor[0] == "A" else "A"
    changed = [other + cursor[1:], cursor[:-4] + "AAAA", cursor[:-1], "", "é", "AAAA", "x" * 300]
    for bad in changed:
        refused(admin.get("/v1/groups", code="planted", cursor=bad), 400, "bad_cursor")
    refused(admin.get("/v1/groups", cursor=cursor), 400, "bad_cursor")
    refused(admin.get("/v1/events", code="planted", cursor=cursor), 400, "bad_cursor")


@pytest.mark.parametrize("number", ["1 OR 1=1", "0", "-1", str(2**63), "1e3", "%00"])
@pytest.mark.parametrize("path", ["/v1/groups/{}", "/v1/events/{}", "/v1/jobs/{}"])
def test_an_id_is_a_number(admin: Admin, path: str, number: str) -> None:
    refused(admin.get(path.format(number)), 422, "bad_query")
    refused(admin.ask("POST", f"/v1/events/{number}/reveal", json={"reason": "x"}), 422, "bad_query")


@pytest.mark.parametrize("path", ["/v1/groups/999999", "/v1/events/999999", "/v1/jobs/999999", "/v1/../x"])
def test_missing_object_or_path_is_404(admin: Admin, path: str) -> None:
    refused(admin.get(path), 404, "not_stored")
    refused(admin.reveal(999_999), 404, "not_stored")


@pytest.mark.parametrize("text", ["%" * 10_000, "\0", ""])
def test_a_filter_is_a_short_text_and_no_pattern(admin: Admin, text: str) -> None:
    said = refused(admin.get("/v1/events", event_name=text), 422, "bad_query")
    assert text not in str(said) or not text
    assert admin.events(event_name="%") == []


def test_hostile_event_text_is_returned_as_escaped_json_with_nosniff(admin: Admin) -> None:
    newest, *_ = admin.events(code="planted")
    answer = admin.get(f"/v1/events/{newest['id']}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"\\u001b[2J" in answer.content
    assert (answer.json()["reason"]["detail"], answer.json()["shape"]) == ("\0<script>", "3 bytes, no JSON")
    assert admin.reveal(newest["id"]).content == b"no\0"


def test_a_range_of_time_begins_before_it_ends(admin: Admin) -> None:
    later, sooner = "2026-01-01T00:00:10Z", "2026-01-01T00:00:05Z"
    refused(admin.get("/v1/events", since=later, until=sooner), 422, "bad_query")
    refused(admin.get("/v1/events", since="2026-01-01T00:00:00"), 422, "bad_query")
    assert len(admin.events(code="planted", since=sooner, until=later)) == 10


def test_an_unknown_parameter_is_refused_and_so_is_a_change_of_nothing_known(admin: Admin) -> None:
    refused(admin.get("/v1/events", evnt="x"), 422, "bad_query")
    group, *_ = admin.groups(code="planted")
    path = f"/v1/groups/{group['id']}"
    for change in ({"state": "open"}, {"actor": "a", "state": "gone"}, {"actor": "a", "events": 0}):
        refused(admin.ask("PATCH", path, json=change, headers=ANY), 422, "bad_query")
    nowhere = admin.ask("PATCH", "/v1/groups/999999", json={"actor": "a", "state": "open"}, headers=ANY)
    refused(nowhere, 404, "not_stored")
    refused(admin.ask("PUT", path, json={}), 405, "method_not_allowed")


def test_a_change_of_a_group_names_the_state_that_was_read(admin: Admin) -> None:
    group, *_ = admin.groups(code="planted")
    path, change = f"/v1/groups/{group['id']}", {"actor": "ann", "state": "acknowledged"}
    before = admin.get(path).headers["etag"]
    refused(admin.ask("PATCH", path, json=change), 428, "if_match_missing")
    changed = admin.ask("PATCH", path, json=change, headers={"if-match": before})
    assert (changed.status_code, changed.json()["state"]) == (200, "acknowledged")
    assert changed.headers["etag"] == admin.get(path).headers["etag"] != before
    other = change | {"state": "ignored"}
    refused(admin.ask("PATCH", path, json=other, headers={"if-match": before}), 412, "group_changed")
    assert admin.get(path).json()["state"] == "acknowledged"
    back = admin.ask("PATCH", path, json=change | {"state": "open"}, headers={"if-match": "*"})
    assert (back.status_code, back.headers["etag"]) == (200, before)


def test_body_over_1_mib_is_refused_with_413_except_for_edits_and_the_registry(admin: Admin) -> None:
    """Bodies are limited before rights are checked; routes with a file or a registry accept more."""
    parts = [b'{"actor":"', b"a" * (1 << 20), b'"}']
    for path in ("/v1/jobs", "/v1/download", "/v1/recheck"):
        refused(admin.ask("POST", path, content=iter(parts)), 413, "body_too_large")
    refused(admin.ask("POST", "/v1/edits?actor=ann", content=iter(parts)), 422, "bad_edits")
    refused(admin.ask("PUT", "/v1/types/x", content=iter(parts)), 422, "bad_query")  # without a reason


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"host": "evil.example:80"}, {"origin": "http://evil.example"}]
)
def test_a_web_page_reads_nothing(admin: Admin, headers: dict[str, str]) -> None:
    for path in ("/v1/groups", "/readyz", "/openapi.json"):
        refused(admin.ask("GET", path, headers=headers), 403, "not_local")


def test_a_database_that_is_out_is_503_and_names_no_password(admin: Admin) -> None:
    execute(admin.dsn, "ALTER TABLE onramp_admin.groups RENAME TO away")
    try:
        said = refused(admin.get("/v1/groups"), 503, "database_unavailable")
        assert said["detail"] == "the control database: SQLSTATE 42P01"
        assert admin.get("/v1/groups").headers["retry-after"] == "2"
    finally:
        execute(admin.dsn, "ALTER TABLE onramp_admin.away RENAME TO groups")


def test_a_control_database_that_takes_no_connections_is_503_and_back_at_once(
    admin: Admin, postgres: HasDsn
) -> None:
    name = urlsplit(admin.dsn).path.removeprefix("/")
    kill = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
    assert admin.get("/v1/groups").status_code == 200  # a connection is idle from now on
    execute(postgres.dsn, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    try:
        execute(postgres.dsn, kill)
        for path in ("/v1/groups", "/v1/events/1", "/v1/jobs", "/v1/audit-log"):
            answer = admin.get(path)
            refused(answer, 503, "database_unavailable")
            assert answer.headers["retry-after"] == "2"
        assert admin.get("/healthz").status_code == 200
    finally:
        execute(postgres.dsn, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert admin.get("/v1/groups").status_code == 200
    execute(postgres.dsn, kill)
    assert admin.get("/v1/groups").status_code == 200  # by another connection than the one that is lost


def test_many_requests_share_few_connections(admin: Admin) -> None:
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: admin.get("/v1/events").status_code, range(200)))
    assert set(answers) == {200}
    # Its own, and those that stay: one that is closing is counted for a moment, whoever has closed it.
    count = (
        "SELECT count(*)::int FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'onramp-admin'"
    )
    of_loops = 4  # of the ingester, jobs, group rehearsals and audits
    eventually(lambda: admin.rows(count)[0][0] <= MAX_CONNECTIONS + of_loops)


def test_shapes_tell_letters_digits_and_commas_and_no_value() -> None:
    value = '{"a":"9,99","b":[1.5,true,null],"c":{"d":"Zoë"},"e":"%s"}' % ("x" * 200)
    assert masked(value.encode()) == {
        "a": "9,99",
        "b": ["9.9", True, None],
        "c": {"d": "AaA"},
        "e": "a" * 64 + "…",
    }


def _cli(admin: Admin, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["errors", *arguments, "--admin", admin.service.url])


def test_the_command_line_lists_groups_and_events_and_shows_one(admin: Admin) -> None:
    groups = _cli(admin, "groups", "--code", "planted", "-n", "3")
    header, *listed = groups.stdout.splitlines()
    assert header.split()[:2] == ["GROUP", "EVENTS"]
    assert [line.split()[1:3] for line in listed] == [["1", "open"]] * 3
    lines = _cli(admin, "groups", "--event", "planted_1", "--json").stdout.splitlines()
    as_json = [json.loads(line) for line in lines]
    assert {group["cause"]["event_name"] for group in as_json} == {"planted_1"}
    assert "3 bytes, no JSON" in _cli(admin, "groups", str(as_json[0]["id"])).stdout
    events = _cli(admin, "list", "--code", "planted", "-n", "20")
    header, *listed = events.stdout.splitlines()
    assert (header.split()[0], len(listed)) == ("NUMBER", 20)
    number = listed[0].split()[0]
    assert _cli(admin, "show", number, "--value").exit_code == 2
    shown = _cli(admin, "show", number, "--value", "--reason", "why not")
    assert "detail: \\x00<script>" in shown.stdout
    assert "value: no\\x00" in shown.stdout
    assert "\x1b" not in events.stdout + shown.stdout
    assert _cli(admin, "show", number, "--raw", "--reason", "why").stdout_bytes == b"no\0"


def test_the_command_line_marks_a_group(admin: Admin) -> None:
    mine = str(admin.groups(code="planted")[1]["id"])
    marked = _cli(admin, "mark", mine, "--state", "acknowledged", "--assignee", "bob", "--json")
    assert [json.loads(marked.stdout)[n] for n in ("state", "assignee")] == ["acknowledged", "bob"]
    freed = _cli(admin, "mark", mine, "--assignee", "", "--json")
    assert [json.loads(freed.stdout)[n] for n in ("state", "assignee")] == ["acknowledged", None]
    assert _cli(admin, "mark", mine).exit_code == 2


def test_the_command_line_says_what_is_wrong(admin: Admin) -> None:
    unknown = _cli(admin, "show", "999999")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "there is no event of this id" in unknown.stderr
    wrong = _cli(admin, "list", "--event", "x" * 600)
    assert (wrong.exit_code, "query/event_name" in wrong.stderr) == (1, True)
    nobody = CliRunner().invoke(app, ["errors", "groups", "--admin", "http://127.0.0.1:1"])
    assert (nobody.exit_code, "onramp admin" in nobody.stderr) == (3, True)
