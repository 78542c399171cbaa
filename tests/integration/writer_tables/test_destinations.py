"""`onramp destinations check`: the printed SQL is sufficient for events to land."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.writer.model.routes import EventRoute, RoutedDatabase, Routes
from tests.fixtures.writer import event, execute
from tests.integration.writer_tables.conftest import Tables

SCHEMA: dict[str, Any] = {
    "required": ["whole", "uid"],
    "properties": {
        "whole": {"type": "integer"},
        'a"; DROP TABLE x; --': {"type": "string", "description": "it's"},
        "at": {"type": "string", "format": "date-time"},
        "uid": {"type": "string", "format": "uuid"},
        "rest": {"type": "object"},
    },
}
PAYLOAD = {
    "whole": 7,
    'a"; DROP TABLE x; --': "b",
    "at": "2026-01-02T03:04:05Z",
    "uid": "0b7c4e1e-5f3a-4c68-9a53-0f1d0c2a9a11",
    "rest": {"a": [1]},
}


@dataclass
class Place:
    """A table of a schema that is there not yet, and a role that may do nothing."""

    tables: Tables
    dsn: str
    file: Path
    registry: dict[str, Any]

    def facts(self) -> list[dict[str, Any]]:
        self.file.write_text(json.dumps({"event_types": {"order_placed": self.registry}}))
        done = CliRunner().invoke(app, [*self._command(), "--json"])
        facts: list[dict[str, Any]] = json.loads(done.stdout)
        assert done.exit_code == (0 if all(fact["holds"] for fact in facts) else 1)
        return facts

    def wrong(self) -> list[dict[str, Any]]:
        return [fact for fact in self.facts() if not fact["holds"]]

    def run(self, sql: str) -> None:
        """As the operator does, who owns the database."""
        execute(self.tables.bench.database.dsn, sql)

    def mend(self) -> list[str]:
        """Run the SQL of what does not hold until all does; return what did not."""
        found: list[str] = []
        while wrong := self.wrong():
            assert len(found) < 20, found
            found.append(wrong[0]["text"])
            self.run(wrong[0]["sql"])
        return found

    def land(self, *ids: str) -> int:
        """Land events by the writer's own code, with the role's rights alone."""
        place = RoutedDatabase("onramp", "", ("shop",))
        self.tables.routes = Routes("onramp", (place,), event_routes=(ROUTE,))
        values = [event(each, **PAYLOAD) for each in ids]
        (done,) = self.tables.land_values(
            values, replace(self.tables.bench.database, dsn=self.dsn, schemas=("shop",))
        ).values()
        assert not done.parked, done.parked
        return len(self.tables.bench.rows("SELECT FROM shop.orders"))

    def _command(self) -> list[str]:
        databases = json.dumps({"onramp": {"schemas": ["shop"]}})
        where = ["--dsn", self.dsn, "--databases", databases, "--file", str(self.file)]
        return ["destinations", "check", *where]


ROUTE = EventRoute("order_placed", "onramp", "shop", "orders")


@pytest.fixture
def place(tables: Tables, tmp_path: Path) -> Iterator[Place]:
    role = f"role_{secrets.token_hex(4)}"
    owner = tables.bench.database.dsn
    execute(owner, f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
    dsn = (
        urlunsplit(parts._replace(netloc=f"{role}:{role}@{parts.netloc.rpartition('@')[2]}"))
        if (parts := urlsplit(owner))
        else ""
    )
    registry = {"schema": SCHEMA, "destinations": [{"schema": "shop", "table": "orders"}]}
    yield Place(tables, dsn, tmp_path / "onramp.yaml", registry)
    execute(owner, f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def test_from_nothing_to_rows_by_what_is_printed_alone(place: Place) -> None:
    place.run("CREATE TABLE public.x ()")
    assert place.mend() == [
        "the schema shop exists",
        "USAGE on the schema",
        "the table shop.orders exists",
        "INSERT",
        "SELECT on the columns by which a repeat is compared",
    ]
    assert place.land("a", "b", "a") == 2
    rows = place.tables.bench.rows(
        "SELECT _id, whole, at::text, uid::text, rest::text, _offset FROM shop.orders"
    )
    assert rows[0] == ("a", 7, "2026-01-02 03:04:05+00", PAYLOAD["uid"], '{"a": [1]}', 0)
    assert place.tables.bench.rows("SELECT FROM public.x") == []  # no field's name was SQL


def test_a_table_of_somebodys_own_is_mended_where_it_does_not_fit(place: Place) -> None:
    place.run(
        "CREATE SCHEMA shop; CREATE TABLE shop.orders (whole text, uid uuid, rest json, more int NOT NULL)"
    )
    assert place.mend() == [
        "USAGE on the schema",
        "INSERT",
        "whole text takes bigint",
        'a column for the field a"; DROP TABLE x; --',
        "a column for the field at",
        "every event has the field more, which is NOT NULL",
        "a key identifies a repetition",
        "SELECT on the columns by which a repeat is compared",
    ]
    assert place.land("a", "b", "a") == 2


def test_problem_that_no_grant_solves_is_reported(place: Place) -> None:
    place.mend()
    place.run(
        "ALTER TABLE shop.orders DROP CONSTRAINT orders_pkey, "
        "ADD CONSTRAINT late PRIMARY KEY (_id) DEFERRABLE; CREATE VIEW shop.seen AS SELECT * FROM shop.orders"
    )
    assert [fact["text"] for fact in place.wrong()] == ["the key (_id) is checked immediately"]
    place.registry["destinations"] = [{"schema": "shop", "table": "seen"}]
    assert "it is a table" in [fact["text"] for fact in place.wrong()]
    place.registry["destinations"] = [{"schema": "public", "table": "t"}]
    assert place.wrong()[0]["sql"] == "-- add public to `schemas` of the database"
    place.registry["destinations"] = [{"vanity": "elsewhere", "schema": "shop", "table": "orders"}]
    assert "the database elsewhere is known" in place.wrong()[0]["text"]
    place.registry["destinations"] = [{"schema": "shop", "table": "x" * 64}]
    assert "1 to 63 bytes" in place.wrong()[0]["text"]
    place.registry["destinations"] = [{}]
    assert place.facts() == []


def test_a_temporal_key_identifies_no_repeat(place: Place) -> None:
    if int(place.tables.bench.one("SHOW server_version_num")) < 180_000:
        pytest.skip("keys WITHOUT OVERLAPS are of Postgres 18")
    place.mend()
    place.run(
        "ALTER TABLE shop.orders DROP CONSTRAINT orders_pkey, ADD part int4range, ADD during daterange, "
        "ADD PRIMARY KEY (part, during WITHOUT OVERLAPS)"
    )
    assert "a key identifies a repetition" in [fact["text"] for fact in place.wrong()]


def test_a_column_of_onramps_that_would_change_its_values_is_named(place: Place) -> None:
    place.mend()
    place.run(
        "CREATE DOMAIN shop.stamp AS timestamptz(0); "
        "ALTER TABLE shop.orders ALTER _timestamp TYPE shop.stamp,"
        " ALTER _received_at TYPE date, ALTER _version TYPE varchar(31), ALTER _topic TYPE varchar(249)"
    )
    assert [fact["sql"] for fact in place.wrong()] == [
        'ALTER TABLE "shop"."orders" ALTER COLUMN _received_at TYPE timestamptz;',
        'ALTER TABLE "shop"."orders" ALTER COLUMN _timestamp TYPE timestamptz;',
        'ALTER TABLE "shop"."orders" ALTER COLUMN _version TYPE text;',
    ]
    with pytest.raises(AssertionError, match="column _received_at"):
        place.land("a")
    place.run("ALTER TABLE shop.orders ALTER _received_at TYPE timestamptz")
    with pytest.raises(AssertionError, match="column _timestamp"):  # by its modifier alone
        place.land("a")
    place.mend()
    assert place.land("b") == 1


def test_fields_that_the_contract_drops_need_no_column(place: Place) -> None:
    place.mend()
    place.run("ALTER TABLE shop.orders DROP COLUMN at")
    assert [fact["text"] for fact in place.wrong()] == ["a column for the field at"]
    place.registry["contract"] = {"unknown_fields": "discard"}
    assert place.wrong() == []


def test_table_without_a_key_is_accepted_when_marked_unkeyed(place: Place) -> None:
    place.mend()
    place.run("ALTER TABLE shop.orders DROP CONSTRAINT orders_pkey, ALTER COLUMN _id DROP NOT NULL")
    (lacking,) = place.wrong()
    assert lacking["sql"].startswith(
        'CREATE UNIQUE INDEX ON "shop"."orders" (_id);\n-- or make each key column'
    )
    place.registry["destinations"][0]["unkeyed"] = True
    assert place.wrong() == []
    assert "no key identifies a repetition, and `unkeyed: true` says so" in [
        fact["text"] for fact in place.facts()
    ]
    assert place.land("a", "a") == 2


@pytest.mark.parametrize(
    "key",
    [
        "n bigserial PRIMARY KEY",
        "n uuid DEFAULT gen_random_uuid() PRIMARY KEY",
        "n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "n int DEFAULT 1, ADD PRIMARY KEY (uid, n)",
        "PRIMARY KEY (uid, _offset)",
    ],
)
def test_a_key_that_a_repeat_gets_anew_is_none(place: Place, key: str) -> None:
    place.mend()
    place.run(f"ALTER TABLE shop.orders DROP CONSTRAINT orders_pkey, ADD {key}")
    assert [fact["text"] for fact in place.wrong()] == ["a key identifies a repetition"]
    place.registry["destinations"][0]["unkeyed"] = True
    assert place.wrong() == []


def test_a_required_field_is_a_key_although_its_column_has_a_default(place: Place) -> None:
    place.mend()
    place.run(
        "ALTER TABLE shop.orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (uid), "
        "ALTER COLUMN uid SET DEFAULT gen_random_uuid()"
    )
    assert place.wrong() == []
    place.registry["schema"] = SCHEMA | {"required": ["whole"]}
    assert [fact["text"] for fact in place.wrong()] == ["a key identifies a repetition"]
    place.registry["schema"] = {}
    assert [fact["text"] for fact in place.wrong()] == ["a key identifies a repetition"]


def test_for_people_it_prints_the_sql_below_the_fact_and_a_database_that_is_out_is_3(place: Place) -> None:
    place.wrong()
    done = CliRunner().invoke(app, place._command())
    assert done.exit_code == 1
    first, *lines = done.stdout.splitlines()
    assert first.split() == ["DESTINATION", "RESULT", "CONDITION"]
    assert [line.split()[:4] for line in lines[:2]] == [
        ["order_placed", "→", "onramp.shop.orders", "ok"],
        ["order_placed", "→", "onramp.shop.orders", "WRONG"],
    ]
    assert (
        '\n-- order_placed → onramp.shop.orders: the schema shop exists\nCREATE SCHEMA "shop";\n'
        in done.stdout
    )
    out = replace(place, dsn="postgresql://x@127.0.0.1:1/x")
    assert CliRunner().invoke(app, out._command()).exit_code == 3


def test_created_and_unkeyed_destinations_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "onramp.yaml"
    made = {"schema": "shop", "table": "orders", "create": True}
    bare = {"vanity": "two", "schema": "shop", "table": "log", "unkeyed": True}
    file.write_text(json.dumps({"event_types": {"a": {"destinations": [made, bare, {}]}}}))
    where = ["--dsn", "postgresql://x@127.0.0.1:1/x", "--file", str(file)]
    done = CliRunner().invoke(app, ["destinations", "list", *where])
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["DESTINATION", "CREATED", "BY", "APPLY", "KEY"],
        ["a", "→", "onramp.shop.orders", "yes", "yes"],
        ["a", "→", "two.shop.log", "no", "no"],
    ]
    listed = json.loads(CliRunner().invoke(app, ["destinations", "list", *where, "--json"]).stdout)
    assert [(each["create"], each["unkeyed"]) for each in listed] == [(True, False), (False, True)]
