"""Least privilege: the SQL of docs/production.md grants exactly the rights that the writer needs."""

import re

import psycopg2
import pyarrow as pa
import pytest
from pydantic import SecretStr

from services.writer.changes.append import append
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.park import outbox
from services.writer.postgres.database import Database, configured
from services.writer.postgres.migrations import migrate
from services.writer.postgres.pool import transaction
from services.writer.settings import WriterSettings
from services.writer.settle import ledger
from services.writer.settle.task import settle
from services.writer.settle.work_order import WorkOrder
from shared import wire
from shared.kafka_read.offsets import Generation, Range
from shared.kafka_security import Brokers
from shared.landing_columns import PAYLOAD
from stack.postgres import Postgres
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.writer import (
    PARTITION,
    TOPIC_ID,
    arrivals,
    envelope,
    event,
    execute,
    make_topics,
    read,
    rows,
)
from tests.unit.conventions.tree import ROOT

BAD = envelope("bad", payload=b'{"a":"\\u0000"}')


@pytest.fixture
def database(own_postgres: Postgres) -> Database:
    """The default database with the two roles of the page."""
    page = (ROOT / "docs/production.md").read_text("utf-8")
    for script in re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        execute(own_postgres.dsn, script)
    addresses = {}
    for role in ("onramp_writer", "onramp_ddl"):
        execute(own_postgres.dsn, f"ALTER ROLE {role} PASSWORD '{role}'")
        addresses[role] = SecretStr(re.sub(r"//.*@", f"//{role}:{role}@", own_postgres.dsn))
    databases = {"onramp": {"ddl_dsn": addresses["onramp_ddl"]}}
    return configured(WriterSettings(dsn=addresses["onramp_writer"], databases=databases))[0]  # type: ignore[arg-type]


def test_the_documented_rights_are_enough_and_no_more(
    database: Database, own_postgres: Postgres, kafka: HasBootstrap
) -> None:
    make_topics(kafka.bootstrap, wire.USER_ERRORS)
    migrate(database)
    with transaction(database, "driver") as conn:
        ledger.claim(conn, {Generation(TOPIC_ID, PARTITION): 0}, 1)

    # The second batch clashes, parks, and so goes the way round by a stage.
    for first, values in ((0, [event("a"), event("b")]), (2, [event("b"), event("c"), BAD])):
        end = first + len(values)
        order = WorkOrder(
            epoch=1,
            ranges={PARTITION: Range(TOPIC_ID, PARTITION, first, end)},
            landing=(database,),
            diverted=(),
            routes=Routes("onramp"),
            brokers=Brokers(kafka.bootstrap),
        )
        reports = settle(order, read(arrivals(values, first=first)))
        assert not [r.failure for r in reports if r.failure], reports
    assert outbox.relay(database, Brokers(kafka.bootstrap)) == 1

    dsn = own_postgres.dsn
    totals = dict(rows(dsn, "SELECT outcome, sum(events)::int FROM onramp.totals GROUP BY 1"))
    assert totals == {"landed": 3, "duplicate": 1, "parked": 1}
    owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname IN ('onramp', 'events')"
    assert rows(dsn, owners) == [("onramp_ddl",)]
    for forbidden in (
        "CREATE TABLE events.mine ()",
        "CREATE SCHEMA mine",
        "DELETE FROM events.order_placed",
        "UPDATE events.order_placed SET payload = '{}'",
        "TRUNCATE events.order_placed",
        "DROP TABLE events.order_placed",
        "ALTER TABLE onramp.ledger ADD COLUMN mine int",
    ):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            execute(database.dsn, forbidden)


def test_documented_rights_let_the_writer_append_captured_changes(
    database: Database, own_postgres: Postgres
) -> None:
    migrate(database)
    target = Target("onramp", "landing", "shop_app_orders")
    place = {"_topic": ["captured"], "_partition": pa.array([0], pa.int32()), "_offset": [0]}
    changes = pa.table({**place, PAYLOAD: ['{"op": "c"}']})
    with transaction(database, "driver") as conn:
        appended = append(conn, database, target, changes)
    assert not appended.parked
    assert rows(own_postgres.dsn, "SELECT change->>'op' FROM landing.shop_app_orders") == [("c",)]
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        execute(database.dsn, "DELETE FROM landing.shop_app_orders")


def test_a_right_that_is_missing_stops_the_writer_from_making_tables(
    database: Database, own_postgres: Postgres
) -> None:
    """The other side: without the second address its tables are not made by the role that writes."""
    alone = configured(WriterSettings(dsn=SecretStr(database.dsn)))[0]
    with pytest.raises(Exception, match="42501"):
        migrate(alone)
    assert rows(own_postgres.dsn, "SELECT to_regclass('onramp.ledger')::text") == [(None,)]
