"""Which tables a replay of an operator for some events may go to: those that only such events land in."""

import pytest

from services.admin.api.operators import Caller
from services.admin.api.rights import require_own_table
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
            "pay_a": {"destinations": [{"vanity": "main", "schema": "public", "table": "shared"}]},
        }
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
        ("events.order_unknown", ["main.events.order_a"], True),
        ("events.pay_a", ["main.events.order_a"], False),
        ("events.secrets", ["main.events.order_a"], False),
        ("public.orders.x", ["main.public.x"], False),
    ],
)
def test_a_table_is_allowed_where_all_that_lands_in_it_is_seen(
    to: str, parked_for: list[str], *, is_allowed: bool
) -> None:
    for caller in (Caller(None, "admin"), Caller("otto", "operator", ("order_*", "*"))):
        require_own_table(caller, to, parked_for, DATABASES, REGISTRY)
    if is_allowed:
        require_own_table(OLGA, to, parked_for, DATABASES, REGISTRY)
        return
    with pytest.raises(UserError, match="to: this key is for some events"):
        require_own_table(OLGA, to, parked_for, DATABASES, REGISTRY)
