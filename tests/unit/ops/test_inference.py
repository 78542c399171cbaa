"""The samples from which an event type is inferred."""

import orjson

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
