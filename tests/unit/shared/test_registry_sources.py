"""Sources and models in the registry: refusals state their reason, accepted settings take effect."""

from typing import Any

import pytest
from pydantic import ValidationError

from shared.registry import Snapshot
from shared.registry.change_log import Chain
from shared.registry.difference import difference
from shared.registry.memory import reasons
from shared.registry.sources import Source, bytes_of, pattern_of, require_no_clash
from shared.registry.strict_yaml import loads
from tests.unit.shared.test_registry_change_log import record

EXAMPLE = """
sources:
  shop: {dsn_env: ONRAMP_SOURCE_SHOP, schemas: [app], exclude: ["app.tmp_*"], publish: shop,
         wal_alarm: 1GB, wal_budget: 4GB, keep_landing: 3d}
models:
  shop.app.orders: {where: "after->>'email' NOT LIKE '%@test'", columns: {card: null}}
"""
SHOP = {"dsn_env": "ONRAMP_SOURCE_SHOP", "schemas": ["app"], "publish": "shop"}


def why(section: str, entries: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as refused:
        Snapshot.model_validate({section: entries})
    return "; ".join(reasons(refused.value))


def test_the_registry_names_sources_and_models() -> None:
    snapshot = Snapshot.model_validate(loads(EXAMPLE))
    shop, orders = snapshot.sources["shop"], snapshot.models["shop.app.orders"]
    assert (shop.wal_alarm_bytes, shop.wal_budget_bytes) == (1 << 30, 4 << 30)
    assert [shop.takes("app", name) for name in ("orders", "tmp_1")] == [True, False]
    assert not shop.takes("public", "orders")
    assert list(orders.columns) == ["card"]
    assert shop.database is None
    require_no_clash(snapshot.sources, snapshot.models)


def test_omitted_source_setting_has_the_documented_default() -> None:
    shop = Source.model_validate(SHOP)
    assert (shop.wal_alarm, shop.wal_budget, shop.keep_landing) == ("1GB", "4GB", "3d")
    assert [bytes_of(size) for size in ("1kB", "2MB", "1TB")] == [1024, 2 << 20, 1 << 40]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"dsn_env": "DATABASE_URL"}, "sources.shop.dsn_env: Value error, the variable"),
        ({"dsn_env": "ONRAMP_SOURCE_SHOP_PASSWORD"}, "does not end with _PASSWORD"),
        ({"dsn": "postgresql://u:p@h/d"}, "sources.shop.dsn: Extra inputs"),
        ({"schemas": []}, "at least 1 item"),
        ({"schemas": ["app", "app"]}, "a schema comes twice"),
        ({"schemas": ["x" * 64]}, "1 to 63 bytes"),
        ({"exclude": ["tmp_*"]}, "schema.table"),
        ({"publish": "onramp"}, "publish to another"),
        ({"publish": "landing"}, "publish to another"),
        ({"publish": "pg_catalog"}, "publish to another"),
        ({"wal_alarm": "1 GB"}, "512MB"),
        ({"wal_alarm": "4GB"}, "wal_alarm is less than wal_budget"),
        ({"wal_budget": 4}, "valid string"),
        ({"keep_landing": "3w"}, "36h, 30d"),
    ],
)
def test_a_source_that_cannot_work_is_refused_by_its_reason(changed: dict[str, Any], told: str) -> None:
    found = why("sources", {"shop": {**SHOP, **changed}})
    assert told in found
    assert "u:p@h" not in found


@pytest.mark.parametrize("name", ["Shop", "shop-1", "a__b", "a_", "_a", "", "1a", "x" * 33])
def test_a_name_that_would_blur_topics_or_slots_is_refused(name: str) -> None:
    assert "a source's name" in why("sources", {name: SHOP})


def test_a_model_is_of_a_table_and_leaves_columns_out() -> None:
    assert "source.schema.table" in why("models", {"shop.orders": {}})
    assert "columns.card" in why("models", {"shop.app.orders": {"columns": {"card": "x"}}})


def test_conflicts_among_sources_and_models_are_reported_in_a_single_error() -> None:
    snapshot = Snapshot.model_validate(
        {
            "sources": {"a": SHOP, "b": SHOP},
            "models": {"c.app.orders": {}, "a.public.orders": {}},
        }
    )
    with pytest.raises(ValueError, match="a and b publish to the same schema shop") as refused:
        require_no_clash(snapshot.sources, snapshot.models)
    assert "there is no source c" in str(refused.value)
    assert "does not take public.orders" in str(refused.value)


def test_two_sources_of_the_same_schema_in_different_databases_are_no_clash() -> None:
    snapshot = Snapshot.model_validate({"sources": {"a": SHOP, "b": {**SHOP, "database": "other"}}})
    require_no_clash(snapshot.sources, snapshot.models)


def test_a_change_set_puts_and_deletes_sources_by_name() -> None:
    chain = Chain()
    chain.take(0, record(-1, {"sources": {"shop": SHOP, "old": {**SHOP, "publish": "old"}}}))
    wanted = Snapshot.model_validate({"sources": {"shop": {**SHOP, "exclude": ["app.tmp_*"]}}})
    change = difference(chain, wanted)
    assert change.lines(chain.document()) == ["- sources.old", "~ sources.shop: exclude"]
    chain.take(1, record(0, change.put, delete=change.delete))
    assert chain.snapshot().sources == wanted.sources


@pytest.mark.parametrize(
    "table", ["app.orders", "app.br[ack]et", "app.st*r", "app.wh?t", 'app.qu"ote', "a.b.c"]
)
def test_the_pattern_of_a_table_leaves_it_out(table: str) -> None:
    schema, _, name = table.partition(".")
    shop = Source.model_validate(SHOP | {"schemas": [schema], "exclude": [pattern_of(table)]})
    assert not shop.takes(schema, name)
    assert shop.takes(schema, f"{name}s")
