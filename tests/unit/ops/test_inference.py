"""The samples from which an event type is inferred."""

import orjson
import pytest

from services.ops.registry.inference import inferred_from


def _event(name: str, **payload: object) -> bytes:
    return orjson.dumps({"metadata": {"id": "1"}, "event_name": name, "payload": payload})


def test_on_a_topic_that_others_share_only_events_of_the_name_are_samples() -> None:
    packet = orjson.dumps({"pipeline_context": {}, "data": {"salary": 1}})
    texts = [_event("order", amount=1), _event("pay", salary=1), packet, b"[1]", b"no JSON", None]
    shared = inferred_from(texts, "order", of_events_only=True)
    assert (shared.samples, shared.skipped) == (1, 5)
    assert [column["name"] for column in shared.columns] == ["amount"]
    assert inferred_from(texts, "order").samples == 3


@pytest.mark.parametrize("depth", [100, 900])
def test_samples_that_are_nested_deeper_than_events_are_skipped(depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    assert inferred_from([deep, deep.encode(), '{"a":1}'], "order_placed")[2:] == (1, 2, "")
