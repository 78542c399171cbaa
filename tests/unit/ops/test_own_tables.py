"""Tables open to an operator's replay: every event that lands in them is visible to the operator."""

import pytest

from services.admin.api.operators import Caller
from services.admin.api.rights import require_own_tables
from services.admin.store.sets_sql import ParkedFor
from shared.errors import UserError
from shared.registry import Snapshot

DATABASES = {"main": "", "shop": "", "main.b": ""}
REGISTRY = Snapshot.model_validate(
    {
        "event_types": {
            "order_a": {
                "destinations": [
                    {"schema": "public", "table": "orders"},
                    {"vanity": "shop", "schema": "public", "table": "orders"},
                    {"schema": "public", "table": "shared"},
                    {"schema": "events", "table": "pay_a"},
                ]
            },
            "order_b": {"destinations": [{"vanity": "shop", "schema": "public", "table": "b"}, {}]},
            "order_c": {"topic": "mixed"},
            "order_d": {
                "destinations": [
                    {"vanity": "shop", "schema": "public", "table": "bills"},
                    {"schema": "public", "table": "packed"},
                ]
            },
            "pay_a": {"destinations": [{"vanity": "main", "schema": "public", "table": "shared"}]},
        },
        "transforms": {
            "own": {"from": "order_a", "to": ["order_b"]},
            "others": {"from": "order_a", "to": ["order_b", "pay_a"]},
        },
        "grants": [
            {"topic": "packets", "schema": "public"},
            {"event_type": "order_c", "table": "orders"},
            {"topic": "bulk.*", "schema": "public", "table": "p_*"},
            {"event_type": "order_c", "schema": "public", "table": "b"},
            {"event_type": "pay_b", "database": "s*", "schema": "public", "table": "bills"},
            {"topic": "packets", "schema": "public", "table": "packed"},
        ],
    }
)
OLGA = Caller("olga", "operator", ("order_*",))


@pytest.mark.parametrize(
    ("to", "parked_for", "is_allowed"),
    [
        ("public.orders", ["main.public.x"], True),
        ("public.orders", ["main.public.x", "shop.events.order_b"], True),
        ("public.orders", [""], True),
        ("public.orders", ["/pipeline_context/destinations/0"], True),
        ("public.orders", ["main.b.public.x"], False),
        ("public.orders", ["gone.public.x"], False),
        ("public.orders", [], False),
        ("public.b", ["shop.events.order_b"], True),
        ("public.b", ["main.events.order_b"], False),
        ("public.shared", ["main.public.x"], False),
        ("public.secrets", ["main.public.x"], False),
        # A grant names the table for packets of other topics.
        ("public.bills", ["shop.events.order_d"], False),
        ("public.packed", ["main.events.order_d"], False),
        ("events.order_unknown", ["main.events.order_a"], True),
        ("events.pay_a", ["main.events.order_a"], False),
        ("events.secrets", ["main.events.order_a"], False),
        ("public.orders.x", ["main.public.x"], False),
    ],
)
def test_a_table_is_allowed_where_all_that_lands_in_it_is_seen(
    to: str, parked_for: list[str], *, is_allowed: bool
) -> None:
    _check(to, [ParkedFor(destination) for destination in parked_for], is_allowed=is_allowed)


@pytest.mark.parametrize(
    ("parked", "is_allowed"),
    [
        (ParkedFor("main.public.orders", "events.order_a", "order_a"), True),
        (ParkedFor("main.events.order_a", "events.order_a", "order_a"), True),
        (ParkedFor("main.public.shared", "events.order_a", "order_a"), False),
        (ParkedFor("main.public.secrets", "events.order_a", "order_a"), False),
        (ParkedFor("gone.public.shared", "events.order_a", "order_a"), True),
        (ParkedFor("transform:own", "events.order_a", "order_a"), True),
        (ParkedFor("transform:others", "events.order_a", "order_a"), False),
        (ParkedFor("transform:gone", "events.order_a", "order_a"), True),
        (ParkedFor("", "events.order_a", "order_a"), False),
        (ParkedFor("", "events.order_b", "order_b"), True),
        (ParkedFor("", "events.order_unknown", "order_unknown"), True),
        (ParkedFor("", "packets", "order_b"), False),
        (ParkedFor("", "mixed", "order_c"), False),
        (ParkedFor("/pipeline_context/destinations/0", "packets", "order_b"), False),
        (ParkedFor("/pipeline_context/destinations/0", "bulk.orders", "order_b"), False),
        # Without a grant a packet may name each table of two schemas.
        (ParkedFor("/pipeline_context/destinations/0", "events.order_b", "order_b"), False),
    ],
)
def test_payloads_are_edited_only_of_events_whose_tables_take_no_others(
    parked: ParkedFor, *, is_allowed: bool
) -> None:
    own = ParkedFor("main.events.order_b", "events.order_b", "order_b")
    _check(None, [own, parked], is_allowed=is_allowed)


def _check(to: str | None, parked_for: list[ParkedFor], *, is_allowed: bool) -> None:
    for caller in (Caller(None, "admin"), Caller("otto", "operator", ("order_*", "*"))):
        require_own_tables(caller, to, parked_for, DATABASES, REGISTRY)
    if is_allowed:
        require_own_tables(OLGA, to, parked_for, DATABASES, REGISTRY)
        return
    with pytest.raises(UserError, match="this key is for some events"):
        require_own_tables(OLGA, to, parked_for, DATABASES, REGISTRY)
