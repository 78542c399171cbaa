"""Masks: the default view of an event shows the shape of its values and hides personal values."""

from typing import Any

import orjson
import pytest

from shared.mask import masked


def test_values_are_shown_as_their_shape() -> None:
    event = {"payload": {"amount": "12,50", "name": "Ann", "n": -4.5, "is": True, "no": None}}
    shown = {"amount": "99,99", "name": "Aaa", "n": "-9.9", "is": True, "no": None}
    assert masked(orjson.dumps(event)) == {"payload": shown}
    assert masked(b"no json") == "7 bytes, no JSON"
    assert masked(None) == "0 bytes, no JSON"


def test_the_name_of_an_event_is_shown_and_nothing_else_in_its_place() -> None:
    def shown(document: object) -> Any:
        return masked(orjson.dumps(document))

    assert shown({"event_name": "order_made", "payload": {"event_name": "order_made"}}) == {
        "event_name": "order_made",
        "payload": {"event_name": "aaaaa_aaaa"},
    }
    assert shown({"event_name": "Ann Lee 12"}) == {"event_name": "Aaa Aaa 99"}
    assert masked(orjson.dumps({"event_name": "ann"}), ["/event_name"]) == {"event_name": "ann"}


@pytest.mark.parametrize("body", ["payload", "data"])
def test_not_even_the_shape_of_what_is_personal_is_shown(body: str) -> None:
    person = {"name": "Ann", "a/b": {"mail": "ann@example.com"}, "phones": [123, 45]}
    event: dict[str, Any] = {body: {"who": person, "n": 1}, "who": {"name": "X"}}
    shown = masked(orjson.dumps(event), ["/who/name", "/who/a~1b", "/who/phones/1", "/gone"])
    who = {"name": "***", "a/b": "***", "phones": ["999", "***"]}
    assert shown == {body: {"who": who, "n": "9"}, "who": {"name": "A"}}
    assert masked(orjson.dumps({"payload": "Ann"}), ["/who"]) == {"payload": "Aaa"}
