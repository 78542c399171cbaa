"""Registry over HTTP: reads, changes that name the state they are based on, and concurrent changes."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, Final

import httpx2
import pytest

from services.admin.api.turns import MAX_OF_ONE
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import execute
from tests.integration.admin.admin_service import refused
from tests.integration.admin.operator_service import key_of
from tests.integration.admin.registry_service import TYPE, WHY, Office, office_of

PARKED: Final = """
    WITH planted AS (
        INSERT INTO onramp_admin.groups (fingerprint, version, event_name, events, first_seen, last_seen)
        VALUES (decode(md5('{name}'), 'hex'), 1, '{name}', 3, now(), now()) RETURNING id)
    INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_name, parked_at, reason, size)
    SELECT gen_random_uuid(), '{name}', 0, n, 'd', id, 'x', '{name}', now(), '{{}}', 0
    FROM planted, generate_series(1, 3) n;
    UPDATE onramp_admin.states SET state = 'discarded'
    WHERE event = (SELECT max(id) FROM onramp_admin.parked WHERE event_name = '{name}')
"""

DEEP: Final = b'{"event_types":{"a":{"schema":' + b'{"not":' * 500 + b"{}" + b"}" * 500 + b"}}}"


@pytest.fixture(scope="module")
def office(
    own_topics: HasBootstrap, postgres: HasDsn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Office]:
    with office_of(own_topics.bootstrap, postgres.dsn, tmp_path_factory.mktemp("office")) as office:
        yield office


def test_registry_is_shown_without_hashes_and_is_written_back_with_its_stored_hashes(office: Office) -> None:
    shown = office.of("vera").get("/v1/registry")
    document = shown.json()
    assert set(document) >= {"keys", "operators"}
    assert "sha256" not in shown.text
    assert document["operators"]["olga"] == {"role": "operator", "events": ["order_*"]}
    document.setdefault("event_types", {})["order_put"] = TYPE
    put = office.change("PUT", "/v1/registry", json=document)
    assert (put.status_code, put.json()["state"]) == (200, "applied"), put.text
    assert put.json()["changes"] == ["+ event_types.order_put"]
    again = office.of("vera").get("/v1/registry")
    assert (again.json(), again.headers["etag"]) == (document, put.headers["etag"])
    assert put.headers["etag"].startswith(f'"{put.json()["offset"]}-')
    assert office.acts[-1] == ["ada", "change registry", "registry", WHY["reason"]]
    last = office.history[0]
    assert (last["actor"], last["reason"], last["offset"]) == ("ada", WHY["reason"], put.json()["offset"])
    assert (last["put"], last["delete"]) == ({"event_types": ["order_put"]}, {})
    same = office.change("PUT", "/v1/registry", json=document)
    assert (same.json()["state"], same.headers["etag"]) == ("unchanged", put.headers["etag"])


def test_request_with_the_current_etag_gets_304_and_with_a_stale_etag_the_document(office: Office) -> None:
    assert office.change("PUT", "/v1/types/order_known", json=TYPE).status_code == 200
    before = office.tag
    paths = ("/v1/registry", "/v1/types", "/v1/types/order_known")

    def asked(path: str, known: str, name: str = "vera") -> httpx2.Response:
        return office.of(name).ask("GET", path, headers={"if-none-match": known})

    for path in paths:
        for known in (before, f"W/{before}", f'"1-00000000", {before}', "*"):
            same = asked(path, known)
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", before), path
        for other in ('"1-00000000"', "", before.strip('"')):
            assert asked(path, other).json() == office.of("vera").get(path).json()
    assert asked("/v1/keys", before).status_code == 200  # secrets expire, and the registry stays the same
    refused(asked("/v1/types/order_no_such", before), 404, "not_stored")
    # Who sees some types, and is given more to see, has not seen what the others have.
    narrow = office.of("olga").get("/v1/types").headers["etag"]
    assert asked("/v1/types", narrow, "olga").status_code == 304
    assert asked("/v1/types", narrow).status_code == 200
    assert asked("/v1/types", before, "olga").status_code == 200
    assert office.change("PUT", "/v1/types/order_known", json=TYPE | {"owner": "till"}).status_code == 200
    for path in paths:
        changed = asked(path, before)
        assert (changed.status_code, changed.headers["etag"]) == (200, office.tag)


def test_a_change_of_another_state_than_is_in_force_is_refused(office: Office) -> None:
    stale, body = office.tag, {"event_types": {"order_stale": TYPE}}
    assert office.change("PUT", "/v1/types/order_first", json=TYPE).status_code == 200
    for path, sent in (("/v1/registry", body), ("/v1/types/order_stale", TYPE)):
        for wrong in (stale, '"0-00000000"', "W/" + office.tag, "nonsense"):
            answer = office.change("PUT", path, json=sent, headers={"if-match": wrong})
            assert office.tag in refused(answer, 412, "registry_changed")["detail"]
        without = office.of("ada").ask("PUT", path, json=sent, params=WHY)
        refused(without, 428, "if_match_missing")
    gone = office.of("ada").ask("DELETE", "/v1/types/order_first", params=WHY)
    refused(gone, 428, "if_match_missing")
    refused(
        office.change("DELETE", "/v1/types/order_first", headers={"if-match": stale}), 412, "registry_changed"
    )
    revoked = office.change("POST", "/v1/keys/shop/revoke", headers={"if-match": stale})
    refused(revoked, 412, "registry_changed")
    assert "order_stale" not in office.types
    listed = f'"1-00000000", {office.tag}'
    assert office.change("DELETE", "/v1/types/order_first", headers={"if-match": listed}).status_code == 200
    assert office.change("PUT", "/v1/registry", json=body, headers={"if-match": "*"}).status_code == 200


@pytest.mark.parametrize("attempt", range(3))
def test_concurrent_changes_of_the_same_state_have_a_single_winner(office: Office, attempt: int) -> None:
    tag, start = office.tag, Barrier(MAX_OF_ONE)

    def put(n: int) -> httpx2.Response:
        body = {"event_types": {f"order_race_{attempt}_{n}": {}}}
        with httpx2.Client(base_url=office.service.url, timeout=60) as client:
            start.wait()
            headers = {"if-match": tag, "authorization": f"Bearer {key_of('ada')}"}
            return client.put("/v1/registry", params=WHY, headers=headers, json=body)

    before = len(office.history)
    with ThreadPoolExecutor(MAX_OF_ONE) as pool:
        answers = list(pool.map(put, range(MAX_OF_ONE)))
    won = [answer for answer in answers if answer.status_code == 200]
    assert [answer.json()["state"] for answer in won] == ["applied"]
    for answer in answers:
        if answer not in won:
            refused(
                answer, *{409: (409, "registry_conflict")}.get(answer.status_code, (412, "registry_changed"))
            )
    assert len(office.history) == before + 1
    mine = {f"order_race_{attempt}_{n}" for n in range(MAX_OF_ONE)} & set(office.types)
    assert mine == {f"order_race_{attempt}_{answers.index(won[0])}"}


def test_a_dry_run_says_what_differs_and_writes_nothing(office: Office) -> None:
    before, acts, history = office.tag, office.acts, office.history
    dry = {"dry_run": "true"}
    put = office.change("PUT", "/v1/registry", json={"event_types": {"order_dry": {}}}, params=dry)
    assert (put.json()["state"], put.json()["offset"]) == ("possible", None)
    assert "+ event_types.order_dry" in put.json()["changes"]
    one = office.change("PUT", "/v1/types/order_dry", json={}, params=dry)
    assert one.json()["changes"] == ["+ event_types.order_dry"]
    key = office.change("POST", "/v1/keys", json={"name": "dry"}, params=dry)
    assert (key.json()["changes"], "key" in key.json()) == (["+ keys.dry"], False)
    assert (
        office.change("POST", "/v1/topics", json={"topic": "order_dry"}, params=dry).json()["created"]
        is False
    )
    assert "events.order_dry" not in {t["topic"] for t in office.of("ada").get("/v1/topics").json()["topics"]}
    assert (office.tag, office.acts, office.history) == (before, acts, history)


def test_change_without_a_valid_reason_is_refused_and_leaves_the_registry_unchanged(office: Office) -> None:
    before = office.tag
    asked: list[tuple[str, str, Any]] = [
        ("PUT", "/v1/registry", {"event_types": {}}),
        ("PUT", "/v1/types/order_why", {}),
        ("DELETE", "/v1/types/order_put", None),
        ("POST", "/v1/keys", {"name": "why"}),
        ("POST", "/v1/keys/shop/rotate", None),
        ("POST", "/v1/keys/shop/revoke", None),
        ("POST", "/v1/topics", {"topic": "order_why"}),
    ]
    for method, path, body in asked:
        for reason in ("", " ", "\0", "x" * 1025):
            said = refused(
                office.change(method, path, json=body, params={"reason": reason}), 422, "bad_query"
            )
            assert "query" in said["errors"][0]["place"]
    assert office.tag == before


def test_an_event_type_is_changed_alone_and_not_against_what_it_took(office: Office) -> None:
    path = "/v1/types/order_alone"
    refused(office.of("ada").get(path), 404, "not_stored")
    refused(office.change("DELETE", path), 404, "not_stored")
    assert office.change("PUT", path, json=TYPE).json()["changes"] == ["+ event_types.order_alone"]
    found = office.of("vera").get(path)
    assert (found.json(), found.headers["etag"]) == (TYPE, office.tag)
    narrow = {"schema": {"type": "object", "properties": {"n": {"type": "string"}}}}
    said = refused(office.change("PUT", path, json=narrow), 422, "registry_refused")
    assert [each["pointer"] for each in said["findings"]] == ["/properties/n/type"]
    assert (said["state"], said["changes"]) == ("refused", ["~ event_types.order_alone: owner, schema"])
    unclear = {"schema": {"oneOf": [TYPE["schema"]]}}
    said = refused(office.change("PUT", path, json=unclear), 422, "registry_refused")
    assert said["state"] == "undecided"
    assert office.change("PUT", path, json=unclear, params={"accept": "true"}).status_code == 200
    assert office.change("DELETE", path).json()["changes"] == ["- event_types.order_alone"]
    assert office.acts[-1][:3] == ["ada", "delete type", "event type order_alone"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad_json"),
        (b"[1]", "registry_refused"),
        (b'{"event_types":{},"event_types":{}}', "duplicate_key"),
        (b'{"eventtypes":{}}', "registry_refused"),
        (b'{"event_types":{"A":{}}}', "registry_refused"),
        (b'{"event_types":{"onramp_mine":{}}}', "registry_refused"),
        (b'{"keys":{"new":{"events":["x"]}}}', "registry_refused"),
        (b'{"keys":[]}', "registry_refused"),
        (b'{"event_types":{"a":{"schema":{"$ref":"http://x/y"}}}}', "registry_refused"),
        (
            DEEP,
            "registry_refused",
        ),
        (b"[" * 5000, "too_deep"),
        (b'{"event_types":{"a":{"owner":"' + b"x" * (15 << 20) + b'"}}}', "body_too_large"),
    ],
    ids=[
        "empty",
        "list",
        "twice",
        "section",
        "name",
        "own",
        "hashes",
        "keys",
        "ref",
        "deep",
        "nested",
        "large",
    ],
)
def test_a_body_that_is_no_registry_is_refused_and_says_where(office: Office, body: bytes, code: str) -> None:
    before = office.tag
    status = {"registry_refused": 422, "body_too_large": 413}.get(code, 400)
    refused(office.change("PUT", "/v1/registry", content=body), status, code)
    assert office.tag == before


def test_a_secret_is_shown_once_and_each_act_is_written_down(office: Office) -> None:
    made = office.change("POST", "/v1/keys", json={"name": "till", "events": ["order_*"]})
    secret = made.json()["key"]
    assert secret.startswith("onramp_till_")
    taken = refused(office.change("POST", "/v1/keys", json={"name": "till"}), 422, "registry_refused")
    assert "there is a key till" in taken["detail"]
    rotated = office.change("POST", "/v1/keys/till/rotate", params={"overlap": "1h"}).json()["key"]
    assert rotated != secret
    listed = office.of("vera").get("/v1/keys")
    [till] = [each for each in listed.json()["keys"] if each["name"] == "till"]
    assert (till["secrets"], till["events"], till["expires"]) == (2, ["order_*"], None)
    asked = {"key": "till", "event": "order_made"}
    assert office.of("vera").get("/v1/access", **asked).json()["may"] is True
    assert office.change("POST", "/v1/keys/till/revoke").status_code == 200
    said = office.of("vera").get("/v1/access", **asked).json()
    assert said == {"may": False, "lines": [{"yes": False, "line": "keys: there is no till"}]}
    for act in ("rotate", "revoke"):
        refused(office.change("POST", f"/v1/keys/till/{act}"), 404, "not_stored")
    acts = [act for act in office.acts if act[2] == "key till"]
    assert [act[1] for act in acts] == ["create key", "rotate key", "revoke key"]
    assert not [
        part for part in (secret, rotated, "sha256") if part in listed.text + json.dumps(office.history)
    ]


def test_change_that_the_audit_log_cannot_record_is_refused_and_shows_no_secret(office: Office) -> None:
    before = office.tag
    execute(office.dsn, "ALTER TABLE onramp_admin.acts ADD CONSTRAINT none CHECK (false) NOT VALID")
    try:
        made = office.change("POST", "/v1/keys", json={"name": "unseen"})
        refused(made, 503, "database_unavailable")
        refused(office.change("PUT", "/v1/registry", json={"event_types": {}}), 503, "database_unavailable")
    finally:
        execute(office.dsn, "ALTER TABLE onramp_admin.acts DROP CONSTRAINT none")
    assert office.tag == before


def test_the_history_has_pages_and_its_cursor_is_no_other_lists(office: Office) -> None:
    for n in range(3):
        assert office.change("PUT", f"/v1/types/order_page_{n}", json={}).status_code == 200
    seen: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = office.of("vera").get("/v1/registry/history", limit=2, **cursor).json()
        seen += [each["offset"] for each in page["history"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
        refused(office.of("vera").get("/v1/types", **cursor), 400, "bad_cursor")
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(set(seen)) == len(office.history)
    names: list[str] = []
    cursor = {}
    while cursor is not None:
        page = office.of("vera").get("/v1/types", limit=2, **cursor).json()
        names += [each["name"] for each in page["types"]]
        cursor = {"cursor": page["next"]} if page["next"] else None  # type: ignore[assignment]
    assert names == sorted(office.types)


def test_a_type_with_parked_events_is_not_taken_away_by_mistake(office: Office) -> None:
    name = "order_parked"
    assert office.change("PUT", f"/v1/types/{name}", json=TYPE).status_code == 200
    execute(office.dsn, PARKED.format(name=name))
    for dry in ({}, {"dry_run": "true"}):
        said = refused(office.change("DELETE", f"/v1/types/{name}", params=dry), 409, "type_has_parked")
        assert said["detail"] == "2 events of order_parked are parked and open"
    assert office.change("DELETE", f"/v1/types/{name}", params={"parked": "keep"}).status_code == 200
    found = office.rows("SELECT state FROM onramp_admin.events WHERE event_name = 'order_parked' ORDER BY id")
    assert [state for (state,) in found] == ["open", "open", "discarded"]
    refused(office.change("DELETE", f"/v1/types/{name}", params={"parked": "drop"}), 422, "bad_query")


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_a_type_that_the_writer_could_not_follow_is_refused(office: Office, dry_run: str) -> None:
    for destination, why in (
        ({"vanity": "wharehouse"}, "event_types.order_x.destinations.0: no such database: wharehouse"),
        ({"schema": "private", "table": "t"}, "opens the schemas events, public, not private"),
        ({"schema": "onramp", "table": "ledger"}, ""),
    ):
        sent = TYPE | {"destinations": [destination]}
        answer = office.change("PUT", "/v1/types/order_x", json=sent, params={"dry_run": dry_run})
        assert why in refused(answer, 422, "registry_refused")["detail"]
    assert "order_x" not in office.types
