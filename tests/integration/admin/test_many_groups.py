"""Changes of many groups apply to all or none, and do not overwrite concurrent decisions."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.fixtures.fix_postgres import Templates
from tests.integration.admin.admin_service import refused
from tests.integration.admin.inside import Inside, inside
from tests.integration.admin.parked_samples import keeping, parked, run

AMOUNT = {"sqlstate": "22P02", "column": "amount", "column_type": "numeric(10,2)", "code": "data_rejected"}


@pytest.fixture(scope="module")
def service(templates: Templates) -> Iterator[Inside]:
    with keeping(templates) as (dsn, ingester):
        value = b'{"event_name": "order_made", "payload": {"amount": "12,50"}}'
        orders = [parked(n, value, event_name="order_made", **AMOUNT) for n in range(5)]
        pays = [parked(n + 10, event_name="pay_made", code=f"c_{n % 2}") for n in range(4)]
        ingester.keep([*orders, *pays], {})
        run(dsn, "discard", code="c_1")
        with inside(dsn, {"onramp": dsn}) as found:
            yield found


def _page(service: Inside, name: str = "ada", **query: Any) -> dict[str, Any]:
    return dict(service.of(name).get("/v1/groups", **query))


def _change(service: Inside, name: str, groups: list[dict[str, Any]], **change: Any) -> httpx2.Response:
    read = [{"id": group["id"], "etag": group["etag"]} for group in groups]
    return service.of(name).ask("PATCH", "/v1/groups", json={"groups": read, **change})


def test_a_page_has_the_facets_of_each_group_and_the_counts_of_states(service: Inside) -> None:
    page = _page(service, facets=True, limit=2)
    assert sum(page["states"].values()) == 3
    assert [list(group["facets"]) for group in page["groups"]] == [
        list(service.get(f"/v1/groups/{group['id']}")["facets"]) for group in page["groups"]
    ]
    assert "facets" not in _page(service)["groups"][0]
    second = _page(service, facets=True, limit=2, cursor=page["next"])
    of = {group["id"]: group for group in page["groups"] + second["groups"]}
    assert sorted(group["events"] for group in of.values()) == [2, 2, 5]
    assert sorted(str(group["by_state"]) for group in of.values()) == [
        "{'discarded': 2}",
        "{'open': 2}",
        "{'open': 5}",
    ]
    assert _page(service, "olga")["states"] == {"open": 1}


def test_a_title_says_what_the_value_is_not(service: Inside) -> None:
    [group] = _page(service, event_name="order_made")["groups"]
    assert group["title"] == "`amount` is not a number"


def test_many_groups_change_at_once_or_none_does(service: Inside) -> None:
    groups = _page(service)["groups"]
    assert _change(service, "otto", groups, assignee="otto", state="acknowledged").status_code == 200
    after = _page(service)
    assert after["states"] == {"acknowledged": 2, "resolved": 1}  # one has no open events
    assert {group["assignee"] for group in after["groups"]} == {"otto"}
    [first, *others] = after["groups"]
    one = [first]
    assert _change(service, "ada", one, state="ignored", reason="a test").status_code == 200
    problem = refused(_change(service, "otto", after["groups"], state="open"), 412, "group_changed")
    assert [(each["id"], each["changed_by"]) for each in problem["stale"]] == [(first["id"], "ada")]
    assert "by ada" in problem["detail"]
    assert _page(service)["states"] == {"acknowledged": 2, "ignored": 1}
    refused(_change(service, "otto", [*others, {"id": 999, "etag": "*"}], state="open"), 404, "not_stored")
    assert _page(service)["states"] == {"acknowledged": 2, "ignored": 1}
    refused(_change(service, "otto", [*others, others[0]], state="open"), 422, "bad_query")


def test_operator_changes_only_groups_of_visible_events_and_a_viewer_changes_no_group(
    service: Inside,
) -> None:
    groups = _page(service)["groups"]
    refused(_change(service, "olga", groups, assignee="olga"), 404, "not_stored")
    refused(_change(service, "vera", groups, assignee="vera"), 403, "not_allowed")
    assert "olga" not in {group["assignee"] for group in _page(service)["groups"]}
    own = _page(service, "olga")["groups"]
    assert _change(service, "olga", own, assignee="olga").json()["groups"][0]["assignee"] == "olga"


def test_stale_change_of_a_group_is_refused_and_names_the_last_editor(service: Inside) -> None:
    [group] = _page(service, "olga")["groups"]
    path = f"/v1/groups/{group['id']}"
    tag = {"if-match": service.ask("GET", path).headers["etag"]}
    assert service.of("olga").ask("PATCH", path, json={"state": "ignored"}, headers=tag).status_code == 200
    stale = service.of("otto").ask("PATCH", path, json={"state": "open"}, headers=tag)
    assert refused(stale, 412, "group_changed")["changed_by"] == "olga"
