"""Routes of a batch, built from the operator's settings and the registry's destinations."""

import asyncio
import threading
from typing import Any

import orjson
import pytest
from pydantic import SecretStr, ValidationError

from services.writer.driver.routes_from_registry import RegistryRefresher, routes_of, unusable
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.postgres.database import configured
from services.writer.settings import DatabaseSettings, WriterSettings
from services.writer.sort.route_lookup import lookup_for
from shared.registry.entries import Snapshot
from shared.registry.memory import MemoryRegistry

DATABASES = {
    "warehouse": {"dsn": "postgresql://w@db/warehouse_7", "schemas": ["shop", "events"]},
    "plain": "dbname=plain",
}
SOURCE = {"dsn_env": "ONRAMP_SOURCE_S", "schemas": ["app"], "publish": "s"}


def settings(**databases: Any) -> WriterSettings:
    return WriterSettings(dsn=SecretStr("dbname=main"), databases=databases or DATABASES)


def routes(document: dict[str, Any], of: WriterSettings | None = None) -> Routes:
    databases = configured(of or settings())
    return routes_of(MemoryRegistry(document).snapshot(), databases)


def may(found: Routes, topic: str, database: str, schema: str, table: str = "t") -> bool:
    opened = lookup_for(found).database(database)
    return (
        opened is not None
        and schema in opened.schemas
        and lookup_for(found).allows(topic, Target(database, schema, table))
    )


def test_default_database_alone_is_open_without_grants() -> None:
    found = routes({})
    assert [(p.name, p.dbname, p.schemas) for p in found.places] == [
        ("onramp", "main", ("events", "public")),
        ("warehouse", "warehouse_7", ("shop", "events")),
        ("plain", "plain", ("events", "public")),
    ]
    assert may(found, "any", "onramp", "public")
    assert not may(found, "any", "warehouse", "shop")
    assert not may(found, "any", "plain", "public")


def test_a_grant_opens_a_table_to_a_topic_and_closes_what_it_does_not_name() -> None:
    grants = [
        {"topic": "packets.*", "database": "warehouse", "schema": "shop", "table": "raw_*"},
        {"event_type": "order_placed", "database": "plain", "schema": "public"},
        {"event_type": "own_topic", "schema": "events"},
    ]
    found = routes({"grants": grants, "event_types": {"own_topic": {"topic": "shop.own"}}})
    assert may(found, "packets.shop", "warehouse", "shop", "raw_1")
    assert not may(found, "packets.shop", "warehouse", "shop", "orders")
    assert not may(found, "packets.shop", "onramp", "public")
    assert may(found, "events.order_placed", "plain", "public")
    assert may(found, "shop.own", "warehouse", "events")
    assert may(found, "events.other", "onramp", "public")


def test_an_open_schema_is_needed_beside_the_grant() -> None:
    found = routes({"grants": [{"topic": "*"}]}, settings(onramp={"schemas": ["shop"]}))
    assert may(found, "any", "onramp", "shop")
    assert not may(found, "any", "onramp", "public")


def test_an_event_types_own_contract_comes_before_the_lists_and_the_lists_in_order() -> None:
    to_raw_a = {"destinations": [{"schema": "public", "table": "raw_a"}]}
    frozen = to_raw_a | {"contract": {"unknown_fields": "freeze"}}
    found = routes(
        {
            "event_types": {"a": frozen},
            "contracts": [
                {"unknown_fields": "freeze", "table": "raw_b"},
                {"unknown_fields": "discard", "schema": "public", "table": "raw_*"},
            ],
        }
    )
    said = {
        t: lookup_for(found).typed("onramp", "public", t).unknown_fields
        for t in ("raw_a", "raw_b", "raw_c", "d")
    }
    assert said == {"raw_a": "freeze", "raw_b": "freeze", "raw_c": "discard", "d": "freeze"}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"grants": [{"topic": "a", "database": "wharehouse"}]}, "grants.0: no such database"),
        ({"contracts": [{"unknown_fields": "freeze", "database": "nowhere"}]}, "contracts.0"),
        (
            {"event_types": {"a": {"destinations": [{}, {"schema": "private", "table": "t"}]}}},
            "event_types.a.destinations.1: database onramp opens the schemas events, public, not private",
        ),
        (
            {"event_types": {"a": {"destinations": [{"vanity": "x"}]}}},
            "event_types.a.destinations.0: no such",
        ),
        ({"sources": {"s": SOURCE | {"database": "x"}}}, "sources.s: no such database: x; configured are"),
    ],
)
def test_entry_that_the_settings_do_not_allow_is_reported_by_location_and_no_other_entry(
    document: dict[str, Any], says: str
) -> None:
    fine = {"event_types": {"b": {"destinations": [{"vanity": "warehouse", "schema": "shop", "table": "t"}]}}}
    assert unusable(Snapshot.model_validate(fine), configured(settings())) == {}
    both = document | {"event_types": document.get("event_types", {}) | fine["event_types"]}
    (told,) = unusable(Snapshot.model_validate(both), configured(settings())).items()
    assert ": ".join(told).startswith(says)


@pytest.mark.parametrize(
    "destination",
    [
        {"schema": "onramp", "table": "ledger"},
        {"schema": "landing", "table": "t"},
        {"schema": "pg_catalog", "table": "t"},
        {"table": "t"},
        {"type": "s3"},
    ],
)
def test_a_destination_that_no_service_can_write_to_is_no_registry(destination: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Snapshot.model_validate({"event_types": {"a": {"destinations": [destination]}}})


def test_databases_named_only_by_the_registry_are_listed_as_unconfigured() -> None:
    events = {"a": {"destinations": [{}, {"vanity": "x"}]}, "b": {"destinations": [{"vanity": "plain"}]}}
    found = routes({"event_types": events, "sources": {"s": SOURCE | {"database": "y"}}})
    assert found.unconfigured() == {"x", "y"}
    assert Routes("onramp").unconfigured() == set()


@pytest.mark.parametrize(
    "document",
    [
        {"grants": [{"database": "onramp"}]},
        {"grants": [{"topic": "a", "event_type": "b"}]},
        {"grants": [{"topic": "a", "host": "evil"}]},
        {"contracts": [{"unknown_fields": "evolve"}]},
        {"event_types": {"a": {"contract": {"unknown_fields": "discrad"}}}},
    ],
)
def test_a_misspelt_grant_or_contract_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Snapshot.model_validate(document)


@pytest.mark.parametrize(
    "databases",
    [
        {"other": {"schemas": ["events"]}},
        {"other": {"dsn": "postgresql://u:topsecret@h/d", "max_conections": 9}},
        {"other": {"dsn": "postgresql://u:topsecret@h/d", "max_connections": 5}},
        {"other": {"dsn": "postgresql://u:topsecret@h/d", "schemas": ["events", "onramp"]}},
        {"other": {"dsn": "postgresql://u:topsecret@h/d", "schemas": ["pg_catalog"]}},
        {"other": 5, "more": "postgresql://u:topsecret@h/d"},
    ],
)
def test_settings_that_make_no_sense_are_refused_without_their_secrets(
    databases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONRAMP_WRITER_DATABASES", orjson.dumps(databases).decode())
    with pytest.raises(ValidationError) as refused:
        WriterSettings()
    assert "topsecret" not in str(refused.value)


def test_a_databases_own_limits_come_before_the_writers() -> None:
    own = {"dsn": "dbname=slow", "statement_timeout_ms": 5000, "idle_in_transaction_ms": 2000}
    main, slow = configured(settings(slow=own))
    assert "statement_timeout=60000" in main.options
    assert "statement_timeout=5000" in slow.options
    assert "lock_timeout=2000" in slow.options
    assert "idle_in_transaction_session_timeout=2000" in slow.options


def test_the_default_database_is_configured_under_its_name() -> None:
    (main,) = configured(settings(onramp={"ddl_dsn": "dbname=main user=owner", "max_connections": 8}))
    assert (main.dsn, main.ddl_dsn, main.max_connections) == ("dbname=main", "dbname=main user=owner", 8)
    assert "owner" not in repr(main)


class _Hangs(MemoryRegistry):
    """Its refreshes wait for Kafka until they are released; the second one fails."""

    def __init__(self) -> None:
        self.refreshes = 0
        self.goes_on = threading.Event()

    def refresh(self) -> bool:
        """Wait."""
        self.refreshes += 1
        assert self.goes_on.wait(60)
        if self.refreshes == 2:
            raise ZeroDivisionError
        return True


def test_a_look_that_takes_long_is_waited_for_once_and_one_that_fails_is_not_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refresh_thrice() -> None:
        registry = _Hangs()
        refresher = RegistryRefresher(registry)
        await refresher.refresh(0.01)
        await refresher.refresh(3600)  # returns at once, or this test does not end
        assert registry.refreshes == 1
        registry.goes_on.set()
        while registry.refreshes < 3:
            await refresher.refresh(60)
            await asyncio.sleep(0)  # one that is late is not waited for

    asyncio.run(refresh_thrice())
    said = "the registry could not be read; the previous one stays in use"
    assert [r.message for r in caplog.records] == [said]


def test_no_database_has_the_name_of_another_one_and_a_dot() -> None:
    assert settings(**{"main.b": "dbname=x"})
    both = {name: DatabaseSettings(dsn=SecretStr("dbname=x")) for name in ("main", "main.b")}
    with pytest.raises(ValueError, match="main\\.b begins with another database's name"):
        WriterSettings(dsn=SecretStr("dbname=main"), databases=both)
