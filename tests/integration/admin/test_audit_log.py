"""Audit log: each view or action of an operator is recorded with it or refused; senders can do neither."""

import hashlib
from typing import Any, Final

import pytest

from services.admin.api.rights import NEEDS
from tests.fixtures.writer import eventually, execute
from tests.integration.admin.admin_service import DIGESTS
from tests.integration.admin.operator_service import OPERATORS, Guarded, key_of, registry

WHY: Final = {"reason": "the sender asks", "actor": "somebody"}
PLANTED: Final = {"filters": {"code": "planted"}}
VALUE: Final = '{"metadata":{"id":"e"},"event_name":"x","payload":{"a":"12 High Street"}}'
#: Nothing can be written down any more.
NO_ACTS: Final = "ALTER TABLE onramp_admin.acts ADD CONSTRAINT none CHECK (false) NOT VALID"
ACTS_AGAIN: Final = "ALTER TABLE onramp_admin.acts DROP CONSTRAINT none"
#: All that a request could change.
TABLES: Final = ("jobs", "uploads", "edits", "groups", "events", "acts")


def _everything(guarded: Guarded) -> list[Any]:
    """The content of the control database."""
    return [guarded.rows(f"SELECT * FROM onramp_admin.{table} ORDER BY 1") for table in TABLES]  # noqa: S608


def _written(guarded: Guarded, after: int) -> list[tuple[Any, ...]]:
    """Actor, act, subject and reason of the entries after the act `after`."""
    found = guarded.rows("SELECT id, actor, act, subject, reason FROM onramp_admin.acts ORDER BY id")
    return [act for number, *act in found if number > after]


def _last_act(guarded: Guarded) -> int:
    [(number,)] = guarded.rows("SELECT coalesce(max(id), 0) FROM onramp_admin.acts")
    return int(number)


def _acts_of(guarded: Guarded) -> list[tuple[str, str, dict[str, Any]]]:
    """Requests that show a value or change something: method, path and body."""
    [(event, group)] = guarded.rows(
        "SELECT id, group_id FROM onramp_admin.events WHERE event_name = 'pay_made' ORDER BY id LIMIT 1"
    )
    line = b'{"event":%d,"payload":{}}' % event
    return [
        ("POST", f"/v1/events/{event}/reveal", {"json": WHY}),
        ("POST", "/v1/download", {"json": PLANTED | WHY}),
        ("POST", "/v1/edits?actor=somebody", {"content": line}),
        (
            "PATCH",
            f"/v1/groups/{group}",
            {"json": {"state": "acknowledged", **WHY}, "headers": {"if-match": "*"}},
        ),
        ("POST", "/v1/jobs", {"json": {"kind": "discard", "rate": 1, **PLANTED, **WHY}}),
    ]


@pytest.fixture
def value(guarded: Guarded) -> None:
    """The events' values are envelopes, which can be edited."""
    execute(guarded.dsn, f"UPDATE onramp_admin.bytes SET value = '{VALUE}'; {DIGESTS}")  # noqa: S608


@pytest.mark.usefixtures("value")
def test_each_view_or_action_of_an_operator_is_written_down_by_the_name_of_their_key(
    guarded: Guarded,
) -> None:
    before, ada = _last_act(guarded), guarded.of("ada")
    answers = [ada.ask(method, path, **asked) for method, path, asked in _acts_of(guarded)]
    assert [answer.status_code for answer in answers] == [200, 200, 201, 200, 202]
    assert b"12 High Street" in answers[0].content
    assert b"12 High Street" in answers[1].content
    job, edits = answers[4].json()["id"], answers[2].json()["edits"]
    assert ada.ask("POST", f"/v1/jobs/{job}/cancel", json={"actor": "somebody"}).status_code == 200
    number = int(_acts_of(guarded)[0][1].split("/")[3])
    group = int(_acts_of(guarded)[3][1].rpartition("/")[2])
    planted = "SELECT id FROM onramp_admin.events WHERE code = 'planted' ORDER BY id"
    events = [n for (n,) in guarded.rows(planted)]
    assert _written(guarded, before) == [
        ["ada", "reveal", f"event {number}", WHY["reason"]],
        ["ada", "download", f"16 events ({events[0]} to {events[-1]})", WHY["reason"]],
        ["ada", "edit", f"1 events as edits {edits}", None],
        ["ada", "set state acknowledged", f"group {group}", WHY["reason"]],
        ["ada", "start discard", f"job {job}", WHY["reason"]],
        ["ada", "cancel", f"job {job}", None],
    ]
    # It changes events until it has ended, and what follows compares all that there is.
    eventually(lambda: ada.get(f"/v1/jobs/{job}").json()["state"] == "cancelled")


@pytest.mark.usefixtures("value")
def test_request_that_cannot_be_audit_logged_gets_503_and_shows_and_changes_nothing(guarded: Guarded) -> None:
    execute(guarded.dsn, NO_ACTS)
    try:
        before = _everything(guarded)
        for method, path, asked in _acts_of(guarded):
            answer = guarded.of("ada").ask(method, path, **asked)
            assert (answer.status_code, answer.json()["type"]) == (503, "/errors/database_unavailable"), path
            assert b"12 High Street" not in answer.content
        assert _everything(guarded) == before
    finally:
        execute(guarded.dsn, ACTS_AGAIN)


@pytest.mark.usefixtures("value")
def test_a_look_at_what_is_masked_and_a_count_are_no_acts(guarded: Guarded) -> None:
    before, ada = _last_act(guarded), guarded.of("ada")
    for path in ("/v1/groups", "/v1/events", "/v1/jobs", "/v1/audit-log", "/v1/counts", "/v1/segments"):
        answer = ada.get(path)
        assert (answer.status_code, b"12 High Street" in answer.content) == (200, False)
    assert ada.start("discard", dry_run=True).status_code == 202
    assert _written(guarded, before) == []


@pytest.mark.usefixtures("value")
@pytest.mark.parametrize("route", [*NEEDS, "GET /openapi.json", "GET /v1/nothing"])
def test_a_senders_key_opens_no_route_and_changes_nothing(guarded: Guarded, route: str) -> None:
    method, path = route.replace("{number}", "1").split()
    complete = {p.partition("?")[0]: asked for _, p, asked in _acts_of(guarded)}
    before = _everything(guarded)
    for asked in ({}, complete.get(path, {"json": WHY})):
        answer = guarded.of("shop").ask(method, path, **asked)
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.status_code, answer.json()["type"]) == (403, "/errors/not_allowed")
        assert answer.json()["detail"] == "this is a key for sending events"
    assert _everything(guarded) == before


def test_a_sender_with_an_operators_name_is_a_sender(guarded: Guarded) -> None:
    """A name gives no right: each key is what its own hash is listed as."""
    assert guarded.registry is not None
    senders_key = f"onramp_ada_{'sender' * 6}"
    document = registry(*OPERATORS)
    document["keys"]["ada"] = {"hashes": [{"sha256": hashlib.sha256(senders_key.encode()).hexdigest()}]}
    guarded.registry.put(document)

    def asked_with(key: str) -> int:
        return guarded.ask("GET", "/v1/audit-log", headers={"authorization": f"Bearer {key}"}).status_code

    eventually(lambda: asked_with(senders_key) == 403, 60)
    assert asked_with(key_of("ada")) == 200
