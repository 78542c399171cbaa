"""Change topics: manually changed settings are restored, or reported where they cannot be."""

from services.cdc.agent import names
from services.cdc.setup.source_requests_sql import listed
from tests.fixtures.sources import Captured, alter_topic, flows, grow_topic, topic_settings
from tests.fixtures.writer import eventually

_HOUR_MS = "3600000"


def test_manually_changed_topic_settings_are_restored_or_reported(shop: Captured) -> None:
    shop.execute("CREATE TABLE app.grown (id int PRIMARY KEY)", "INSERT INTO app.grown VALUES (1)")
    reconciler = shop.new_reconciler()
    flows(reconciler)
    eventually(lambda: shop.changes("orders") and shop.changes("grown"), 60)
    reconciler.close()
    orders, grown = (names.topic(shop.name, "app", table) for table in ("orders", "grown"))
    made = topic_settings(shop.bootstrap, orders)
    assert (made["retention.ms"], made["retention.bytes"], made["cleanup.policy"]) == (
        str(24 * int(_HOUR_MS)),
        "-1",
        "delete",
    )
    alter_topic(
        shop.bootstrap,
        orders,
        {"retention.ms": _HOUR_MS, "retention.bytes": "1000000", "cleanup.policy": "compact"},
    )
    # Longer is as good, and somebody's choice.
    alter_topic(shop.bootstrap, grown, {"retention.ms": "-1"})
    grow_topic(shop.bootstrap, grown, 2)

    # Another look, as after a restart of the agent, does not wait for the minute in which it looks next.
    reconciler = shop.new_reconciler()
    shown = flows(reconciler)
    reconciler.close()
    after = topic_settings(shop.bootstrap, orders)
    policed = ("retention.ms", "retention.bytes", "cleanup.policy", "max.message.bytes")
    assert {name: after[name] for name in policed} == {name: made[name] for name in policed}
    assert topic_settings(shop.bootstrap, grown)["retention.ms"] == "-1"
    told = f"the topic {grown} has 2 partitions and must have one"
    assert told in shown.reason
    assert f"onramp sources remove {shop.name}" in shown.reason
    assert orders not in shown.reason
    (of_people,) = listed(shop.published)
    assert (of_people["state"], told in of_people["reason"]) == ("streaming", True)
