"""Sources with another encoding or unusual settings: their rows arrive unchanged."""

from collections.abc import Iterator
from typing import Final

import pytest

from services.cdc.setup.check_sql import facts
from services.cdc.setup.source_requests_sql import ask_for_resync
from stack.connect import Connect
from stack.postgres import Postgres
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.sources import Captured, captured, flows
from tests.fixtures.writer import eventually, set_for_database
from tests.integration.capture.test_changes_without_events import new_reconciler
from tests.integration.capture.warehouse import equal, pending

SETTINGS: Final = {
    "client_encoding": "UTF8",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "search_path": "nowhere",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
}
#: Of a table t.
CHANGES: Final = (
    "INSERT INTO t VALUES ('é', repeat('é', 9000), 'groß')",
    "UPDATE t SET wert = 'ñ' WHERE \"schlüssel\\\" = 'ä'",
    "DELETE FROM t WHERE ctid = '(0,2)'",
)
COLUMNS: Final = '"schlüssel\\", wert, größe::text'


@pytest.fixture
def shop(
    server: Postgres, connect: Connect, kafka: HasBootstrap, request: pytest.FixtureRequest
) -> Iterator[Captured]:
    with captured(server, connect, kafka.bootstrap, encoding=request.param) as made:
        yield made


@pytest.mark.parametrize("shop", ["LATIN1", pytest.param("SQL_ASCII", marks=pytest.mark.full)], indirect=True)
@pytest.mark.usefixtures("warehouse")
def test_rows_of_another_encoding_come_out_as_they_are(shop: Captured) -> None:
    set_for_database(shop.dsn, SETTINGS)
    shop.execute(
        "CREATE TYPE app.größe AS ENUM ('groß', 'klein')",
        'CREATE TABLE app.straße ("schlüssel\\" text PRIMARY KEY, wert text, größe app.größe)',
        'CREATE TABLE app.ohne ("schlüssel\\" text, wert text, größe app.größe)',
        "ALTER TABLE app.ohne REPLICA IDENTITY FULL",
        "INSERT INTO app.straße VALUES ('ä', 'ö', 'groß'), ('ü', 'ß', 'klein')",
        "INSERT INTO app.ohne SELECT * FROM app.straße UNION ALL SELECT * FROM app.straße",
    )
    tables = ("straße", "ohne")
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        for table in tables:
            shop.execute(*(each.replace("t ", f"app.{table} ", 1) for each in CHANGES))
        assert all(equal(shop, table, COLUMNS) for table in tables)
        shop.execute(*(f"ALTER TABLE app.{table} ADD mehr text DEFAULT 'größer'" for table in tables))
        eventually(lambda: reconciler.reconcile() and not pending(shop), 60)
        assert all(equal(shop, table, f"{COLUMNS}, mehr") for table in tables)


@pytest.mark.full
@pytest.mark.parametrize("shop", ["SQL_ASCII"], indirect=True)
@pytest.mark.usefixtures("warehouse")
def test_text_that_is_not_utf8_fails_its_source_with_a_reason_until_a_resync(shop: Captured) -> None:
    shop.execute("CREATE TABLE app.t (id int PRIMARY KEY, v text)", "INSERT INTO app.t VALUES (1, 'a')")
    found = list(facts(shop.name, shop.source, shop.dsn, rows=False))
    assert any("SQL_ASCII" in fact.what for fact in found if fact.level == "warn")
    text = "UPDATE app.t SET v = convert_from('\\x{}'::bytea, 'SQL_ASCII')"
    with new_reconciler(shop) as reconciler:
        flows(reconciler)
        shop.execute(text.format("e4"))
        eventually(lambda: "Kafka Connect's log says why" in reconciler.reconcile().reason, 150)
        shop.execute(text.format("c3a4"))
        assert ask_for_resync(shop.published, shop.name)
        eventually(lambda: reconciler.reconcile().state == "streaming", 60)
        assert equal(shop, "t", "id, md5(v)")
