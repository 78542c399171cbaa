"""Registry views over HTTP: tables, topics and samples, each limited to the events its caller may see."""

from collections.abc import Iterator

import pytest

from services.admin.api.rights import NEEDS
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import envelope, execute, make_topics, produce
from tests.integration.admin.admin_service import refused
from tests.integration.admin.registry_service import TYPE, WHY, Office, office_of

OURS = ("/v1/registry", "/v1/types", "/v1/keys", "/v1/destinations", "/v1/access", "/v1/topics")


@pytest.fixture(scope="module")
def office(
    own_topics: HasBootstrap, postgres: HasDsn, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Office]:
    with office_of(own_topics.bootstrap, postgres.dsn, tmp_path_factory.mktemp("office")) as office:
        yield office


def test_operator_for_some_events_sees_only_their_types_tables_and_topics(office: Office) -> None:
    place = {"destinations": [{"type": "postgres", "schema": "public", "table": "seen"}]}
    types = {"order_seen": place, "pay_seen": place, "pay_made": {"topic": "events.order_shared"}}
    assert office.change("PUT", "/v1/registry", json={"event_types": types}).status_code == 200
    make_topics(office.bootstrap, "events.order_seen", partitions=1)
    make_topics(office.bootstrap, "events.order_shared", partitions=1)
    make_topics(office.bootstrap, "events.pay_seen", partitions=1)
    olga, vera = office.of("olga"), office.of("vera")
    assert [each["name"] for each in olga.get("/v1/types").json()["types"]] == ["order_seen"]
    refused(olga.get("/v1/types/pay_seen"), 404, "not_stored")
    for path, name in (("/v1/destinations", "destinations"), ("/v1/destinations/check", "facts")):
        assert {each["event_type"] for each in olga.get(path).json()[name]} == {"order_seen"}
        assert {each["event_type"] for each in vera.get(path).json()[name]} == {"order_seen", "pay_seen"}
    refused(olga.get("/v1/destinations/check", event_type="pay_seen"), 404, "not_stored")
    topics = {each["topic"] for each in olga.get("/v1/topics").json()["topics"]}
    assert topics >= {"events.order_seen"}
    assert not {name for name in topics if not name.startswith("events.order_") or name.endswith("shared")}
    for name in ("events.order_shared", "pay_made", "pay_seen", "events.pay_seen", "onramp.settled"):
        refused(olga.get(f"/v1/topics/{name}/sample"), 404, "not_stored")
    # An event of another name, order_shared, would be on it as well.
    refused(office.of("pia").get("/v1/topics/events.order_shared/sample"), 404, "not_stored")
    assert vera.get("/v1/topics/events.order_shared/sample").json()["records"] == []
    refused(vera.get("/v1/topics/onramp.settled/sample"), 404, "not_stored")


def test_failed_table_check_is_shown_with_the_sql_that_repairs_it(office: Office) -> None:
    place = {"type": "postgres", "schema": "public", "table": "order_made_up", "create": True}
    path = "/v1/types/order_made_up"
    made = office.change("PUT", path, json=TYPE | {"destinations": [place]})
    assert made.json()["state"] == "applied", made.text
    assert "CREATE TABLE" in made.json()["ddl"][0]
    checked = office.of("vera").get("/v1/destinations/check", event_type="order_made_up").json()
    assert (checked["holds"], checked["facts"][0]["table"]) == (True, "order_made_up")
    execute(office.dsn, "DROP TABLE public.order_made_up")
    checked = office.of("vera").get("/v1/destinations/check", event_type="order_made_up").json()
    assert (checked["holds"], "CREATE TABLE" in checked["facts"][-1]["sql"]) == (False, True)


def test_a_topic_is_made_once_and_its_samples_hide_what_is_personal(office: Office) -> None:
    event = {"retention": "36h", "partitions": 2, "personal": ["/mail"]}
    assert office.change("PUT", "/v1/types/order_topic", json=event).status_code == 200
    made = office.change("POST", "/v1/topics", json={"topic": "order_topic"})
    assert (made.status_code, made.json()["topic"], made.json()["partitions"]) == (
        201,
        "events.order_topic",
        2,
    )
    assert office.acts[-1] == ["ada", "create topic", "topic events.order_topic", WHY["reason"]]
    acts = office.acts
    for wrong in (
        {"topic": "order_topic"},
        {"topic": "onramp.settled"},
        {"topic": "order_x", "replication": 9},
    ):
        refused(office.change("POST", "/v1/topics", json=wrong), 409, "topic_refused")
    assert office.acts == acts
    values = [envelope(f"e-{n}", "order_topic", b'{"mail":"ann@example.com","n":"Ann"}') for n in range(3)]
    produce(office.bootstrap, "events.order_topic", values)
    sample = office.of("olga").get("/v1/topics/order_topic/sample", last=2)
    shown = [each["event"]["payload"] for each in sample.json()["records"]]
    assert shown == [{"mail": "***", "n": "Aaa"}] * 2
    listed = {each["topic"]: each for each in office.of("olga").get("/v1/topics").json()["topics"]}
    mine = listed["events.order_topic"]
    assert (mine["partitions"], mine["events"], mine["retention_ms"]) == (2, 3, 36 * 3_600_000)
    assert (mine["event_types"], mine["retention_differs"]) == (["order_topic"], False)
    assert mine["bytes"] > 0
    refused(office.of("olga").get("/v1/topics/order_topic/sample", last=101), 422, "bad_query")


def test_a_topic_keeps_events_as_long_as_an_admin_says(office: Office) -> None:
    name = "events.order_kept"
    make_topics(office.bootstrap, name, partitions=1)
    path = f"/v1/topics/{name}"

    def kept() -> int:
        listed = office.of("vera").get("/v1/topics", limit=500).json()["topics"]
        return next(int(each["retention_ms"]) for each in listed if each["topic"] == name)

    before, acts = kept(), office.acts
    dry = office.change("PATCH", path, json={"retention": "36h"}, params={"dry_run": "true"})
    assert (dry.json()["before_ms"], dry.json()["after_ms"]) == (before, 36 * 3_600_000)
    refused(office.change("PATCH", path, json={"retention": "36h"}, params={"reason": ""}), 422, "bad_query")
    refused(office.change("PATCH", path, json={"retention": "1 day"}), 422, "registry_refused")
    for wrong in ("onramp.settled", "order_no_such"):
        answer = office.change("PATCH", f"/v1/topics/{wrong}", json={"retention": "36h"})
        refused(answer, 409, "topic_refused")
    assert (kept(), office.acts) == (before, acts)
    assert office.change("PATCH", path, json={"retention": "36h"}).status_code == 200
    assert kept() == 36 * 3_600_000
    assert office.acts[-1] == ["ada", "keep 36h", f"topic {name}", WHY["reason"]]


#: A schema of pasted or newest events is inferred for every viewer; nothing changes.
_READS = ("POST /v1/types/infer",)


@pytest.mark.parametrize(
    "route", [route for route in NEEDS if route.split()[1].startswith(OURS) and route not in _READS]
)
def test_viewers_read_and_admins_of_all_events_change(office: Office, route: str) -> None:
    method, path = route.replace("{name}", "order_x").split()
    need = NEEDS[route]
    before = office.tag
    others = {"GET": ("vera",), "PUT": (), "DELETE": (), "POST": (), "PATCH": ()}[method]
    for name in ("vera", "otto", "olga", "adam"):
        if name in others or (method == "GET" and (name == "otto" or not need.all_events)):
            assert office.of(name).ask(method, path).status_code != 403
        else:
            refused(office.of(name).ask(method, path, params=WHY, json={}), 403, "not_allowed")
    assert office.tag == before


def test_openapi_describes_request_bodies_and_query_parameters(office: Office) -> None:
    paths = office.of("ada").get("/openapi.json").json()["paths"]
    for method, path in (("put", "/v1/registry"), ("put", "/v1/types/{name}"), ("post", "/v1/keys")):
        assert "application/json" in paths[path][method]["requestBody"]["content"]
    assert {each["name"] for each in paths["/v1/registry"]["put"]["parameters"]} >= {
        "dry_run",
        "reason",
        "accept",
    }
