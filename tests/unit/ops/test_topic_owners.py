"""The event types by topic are computed once for a registry: a list of topics looks up each of them."""

from typing import Any

from services.ops.registry.topic_owners import events_of, types_by_topic
from shared.registry import Snapshot

TYPES: Any = {"order_placed": {}, "order_paid": {"topic": "events.orders"}}


def test_the_index_is_that_of_the_registry_in_force() -> None:
    registry = Snapshot(event_types=TYPES)
    index = types_by_topic(registry)
    assert index == {"events.order_placed": ["order_placed"], "events.orders": ["order_paid"]}
    assert types_by_topic(Snapshot(event_types=TYPES)) is index
    later = Snapshot(event_types=TYPES | {"order_sent": {"topic": "events.orders"}})
    assert types_by_topic(later)["events.orders"] == ["order_paid", "order_sent"]
    assert events_of(later, "events.orders") == ["order_paid", "order_sent", "orders"]
