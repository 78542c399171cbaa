"""Facets: differences within a group are counted in bounded memory and show no more than masks do."""

from typing import Any

import orjson
import pytest

from services.ops.parked.facets import MAX, SHOWN, Facets, is_personal
from services.ops.parked.parked_events import StoredEvent
from tests.integration.admin.parked_samples import parked


def event(total: Any, n: int = 0, **reason: Any) -> StoredEvent:
    value = orjson.dumps({"event_name": "sale", "payload": {"total": total}})
    return parked(n, value, **{"pointer": "/payload/total", "event_name": "sale", "version": "1"} | reason)


def counted(*events: StoredEvent, shapes: bool = True) -> dict[str, Any]:
    found = Facets()
    found.add(events, shapes=shapes)
    return Facets.of(orjson.loads(found.stored())).shown(shapes=True)


def values(facet: dict[str, Any]) -> list[tuple[str | None, int]]:
    return [(value["value"], value["events"]) for value in facet["values"]]


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("9,99", "9,99"),
        ("12,5 EUR", "99,9 AAA"),
        ("Müller\0", "AAaaaa\\0"),
        (19.5, "99.9"),
        (-7, "-9"),
        ("x" * 100, "a" * 64 + "…"),
        ("", ""),
        (None, "null"),
        (True, "boolean"),
        ({"a": "secret"}, "object"),
        (["secret"], "array"),
    ],
)
def test_a_values_shape_is_what_masks_show_of_it(value: Any, shape: str) -> None:
    assert event(value).shape == shape


def test_a_value_that_is_not_there_is_absent_and_one_of_no_place_has_no_shape() -> None:
    assert event(1, pointer="/payload/other").shape == "absent"
    assert event(1, pointer=None).shape is None
    assert event("9,9", pointer=None, column="total").shape == "9,9"


def test_version_shape_and_hour_are_counted() -> None:
    events = [event("9,99", version=f"{n % 2}", n=n) for n in range(5)] + [event(3, version=None)]
    found = counted(*events)
    assert values(found["version"]) == [("0", 3), ("1", 2), (None, 1)]
    assert values(found["shape"]) == [("9,99", 5), ("9", 1)]
    assert values(found["hour"]) == [("1970-01-01T00:00Z", 6)]
    assert {facet["others"] for facet in found.values()} == {0}
    assert "shape" not in counted(*events, shapes=False)


def test_a_million_versions_take_little_room_and_no_event_is_lost() -> None:
    facets = Facets()
    for n in range(0, 20_000, 100):
        facets.add(
            [event(1, version="often")] * 20 + [event(1, version=f"v{n + i}") for i in range(80)], shapes=True
        )
        assert len(orjson.loads(facets.stored())["version"][0]) <= MAX
    shown = facets.shown(shapes=True)["version"]
    assert (len(shown["values"]), values(shown)[0]) == (SHOWN, ("often", 4_000))
    assert sum(count for _, count in values(shown)) + shown["others"] == 20_000


def test_hour_facet_lists_the_newest_hours_and_counts_the_rest_as_others() -> None:
    hour = 3_600_000
    facets = Facets()
    for n in range(200):
        facets.add([parked(n, timestamp=n * hour)] * (200 - n), shapes=True)
    shown = facets.shown(shapes=True)["hour"]
    assert values(shown)[0] == ("1970-01-09T07:00Z", 1)
    assert sum(count for _, count in values(shown)) + shown["others"] == sum(range(1, 201))


@pytest.mark.parametrize(
    ("column", "place", "personal", "hidden"),
    [
        (None, "/payload/mail", ["/mail"], True),
        ("mail", None, ["/mail"], True),
        ("mail", "orders_mail_check", ["/mail"], True),
        ("total", "orders_total_check", ["/mail"], False),
        (None, "/payload/address/street/name", ["/address/street"], True),
        (None, "/payload/address", ["/address/street"], False),
        (None, "/payload/buyers/*/mail", ["/buyers/0/mail"], True),
        (None, "/data/a~1b", ["/a~1b"], True),
        (None, "/payload/mailing", ["/mail"], False),
        (None, "some_constraint", ["/mail"], True),
        (None, "some_constraint", [], False),
        (None, None, ["/mail"], False),
    ],
)
def test_personal_column_or_pointer_hides_the_shape_of_its_value(
    column: str | None, place: str | None, personal: list[str], hidden: bool
) -> None:
    assert is_personal(column, place, personal) is hidden
