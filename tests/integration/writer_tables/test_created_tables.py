"""`create: true`: the table exists before the change is in force, gains columns and loses nothing."""

import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg2
import pytest
import yaml

from services.cli.connection_options import Where
from services.ops.operate.destinations_sql import Wanted, facts
from services.ops.operate.holds_sql import connected
from services.ops.registry.change import Result, State, Wish, apply_file
from services.writer.model.routes import EventRoute, Routes
from shared.contracts.created_tables import with_limits
from shared.contracts.json_schema import compile_schema
from shared.contracts.tables import columns_of, create_table
from shared.registry.editor import Editor
from shared.registry.log import MemoryLog
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import envelope, execute, rows
from tests.integration.writer_tables.conftest import Tables

SCHEMA: dict[str, Any] = {"required": ["n"], "properties": {"n": {"type": "integer"}}}
_COLUMNS = "SELECT attname::text, attnotnull FROM pg_attribute WHERE attrelid = %s::regclass"
_INSERT = """
    INSERT INTO public."od""d" (_id, _event_name, _timestamp, _version, _received_at, _topic,
        _partition, _offset, n)
    VALUES ('kept', 'a', now(), '1', now(), 't', 0, 0, 1)
"""


def apply(log: MemoryLog, folder: Path, where: Where, schema: Any, *, is_dry: bool = False) -> Result:
    place = {"schema": "public", "table": 'od"d', "create": True}
    file = folder / "onramp.yaml"
    file.write_text(yaml.safe_dump({"event_types": {"a": {"schema": schema, "destinations": [place]}}}))
    return apply_file(Editor(log), file, Wish(is_dry=is_dry), where)


def test_a_table_is_made_before_its_change_and_grows(database: Database, tmp_path: Path) -> None:
    role = f"lands_{secrets.token_hex(4)}"
    execute(database.dsn, f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA public TO {role}")
    at = urlsplit(database.dsn)
    there = at.netloc.rpartition("@")[2]
    dsn = urlunsplit(at._replace(netloc=f"{role}:x@{there}"))
    lands = Where("", {"onramp": dsn})
    owned, log = replace(lands, owners={"onramp": database.dsn}), MemoryLog()

    dry = apply(log, tmp_path, owned, SCHEMA, is_dry=True)
    assert dry.state is State.POSSIBLE
    assert dry.ddl[0].startswith('CREATE TABLE "public"."od""d"')
    refused = apply(log, tmp_path, lands, SCHEMA)  # it may not make tables: the SQL that its owner runs
    assert refused.state is State.REFUSED
    assert "42501" in refused.reason
    assert 'CREATE TABLE "public"."od""d"' in refused.reason
    assert not log.records
    assert rows(database.dsn, 'SELECT to_regclass(\'public."od""d"\') IS NULL') == [(True,)]

    assert apply(log, tmp_path, owned, SCHEMA).state is State.APPLIED
    execute(database.dsn, _INSERT)
    more = {**SCHEMA["properties"], "at": {"format": "date", "type": "string"}}
    grown = apply(log, tmp_path, owned, {"required": ["n"], "properties": more})
    assert grown.state is State.APPLIED, grown
    assert grown.ddl == ['ALTER TABLE "public"."od""d" ADD COLUMN "at" date;']
    found = dict(rows(database.dsn, _COLUMNS, 'public."od""d"'))
    assert (found["n"], found["at"]) == (True, False)

    less = {"properties": {}, "required": ["n"]}
    assert apply(log, tmp_path, owned, less).ddl == []  # nothing is ever dropped
    assert rows(database.dsn, 'SELECT n FROM public."od""d"') == [(1,)]
    execute(database.dsn, f'REVOKE INSERT ON public."od""d" FROM {role}')
    lacking = apply(log, tmp_path, owned, SCHEMA)
    assert lacking.state is State.REFUSED
    assert f'GRANT INSERT ON "public"."od""d" TO "{role}"' in lacking.reason
    execute(database.dsn, f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_created_table_that_was_dropped_is_created_again(database: Database, tmp_path: Path) -> None:
    log, where = MemoryLog(), Where("", {"onramp": database.dsn})
    made = apply(log, tmp_path, where, SCHEMA)
    assert (apply(log, tmp_path, where, SCHEMA).state, len(log.records)) == (State.UNCHANGED, 1)
    execute(database.dsn, 'DROP TABLE public."od""d"')
    dry = apply(log, tmp_path, where, SCHEMA, is_dry=True)
    assert (dry.reason, dry.ddl) == ("nothing differs; dropped tables would be created again", made.ddl)
    again = apply(log, tmp_path, where, SCHEMA)
    assert (again.state, again.reason) == (
        State.UNCHANGED,
        "nothing differs; dropped tables were created again",
    )
    execute(database.dsn, _INSERT)

    execute(database.dsn, 'DROP TABLE public."od""d"')
    file = tmp_path / "onramp.yaml"
    file.write_text(file.read_text() + "  b: {}\n")  # another change
    changed = apply_file(Editor(log), file, Wish(), where)
    assert (changed.state, changed.ddl, len(log.records)) == (State.APPLIED, made.ddl, 2)
    down = Where("", {"onramp": "postgresql://x@127.0.0.1:1/x"})
    unseen = apply_file(Editor(log), file, Wish(), down)
    assert unseen.state is State.UNCHANGED
    assert "whether the tables of onramp exist was not checked" in unseen.reason


def test_a_table_that_is_held_is_waited_for_briefly(database: Database, tmp_path: Path) -> None:
    log, where = MemoryLog(), Where("", {"onramp": database.dsn})
    assert apply(log, tmp_path, where, SCHEMA).state is State.APPLIED
    with psycopg2.connect(database.dsn) as conn, conn.cursor() as holding:
        holding.execute('SELECT count(*) FROM public."od""d"')
        more = {"required": ["n"], "properties": {**SCHEMA["properties"], "x": {"type": "string"}}}
        held = apply(log, tmp_path, where, more)
    conn.close()
    assert held.state is State.REFUSED
    assert "55P03" in held.reason
    assert len(log.records) == 1


def test_a_table_without_a_key_is_refused_until_somebody_says_that_it_has_none(
    database: Database, tmp_path: Path
) -> None:
    execute(database.dsn, "CREATE TABLE public.log (n int)")
    log, where = MemoryLog(), Where("", {"onramp": database.dsn})

    def wish(**more: Any) -> Result:
        place = {"schema": "public", "table": "log", **more}
        file = tmp_path / "onramp.yaml"
        file.write_text(yaml.safe_dump({"event_types": {"a": {"destinations": [place]}}}))
        return apply_file(Editor(log), file, Wish(), where)

    refused = wish()
    assert refused.state is State.REFUSED
    assert "event_types.a: no key identifies a repetition" in refused.reason
    assert 'ADD COLUMN _id text;\nCREATE UNIQUE INDEX ON "public"."log" (_id);' in refused.reason
    assert not log.records
    assert wish(create=True, unkeyed=True).state is State.REFUSED

    assert wish(unkeyed=True).state is State.APPLIED
    execute(
        database.dsn, "ALTER TABLE public.log ADD COLUMN _id text; CREATE UNIQUE INDEX ON public.log (_id)"
    )
    assert wish().state is State.APPLIED
    execute(database.dsn, "ALTER TABLE public.log ADD COLUMN _received_at timestamptz(0)")
    coarse = wish(unkeyed=True)
    assert coarse.state is State.REFUSED
    assert 'ALTER TABLE "public"."log" ALTER COLUMN _received_at TYPE timestamptz;' in coarse.reason


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE public.log (id bigserial PRIMARY KEY, n int)",
        (
            "CREATE SEQUENCE public.ids; CREATE DOMAIN public.id AS bigint DEFAULT nextval('public.ids'); "
            "CREATE TABLE public.log (id public.id PRIMARY KEY, n int)"
        ),
    ],
    ids=["sequence", "domain"],
)
def test_a_table_whose_key_has_a_default_is_refused_unless_each_event_has_the_key(
    database: Database, tmp_path: Path, made: str
) -> None:
    execute(database.dsn, made)
    log, where = MemoryLog(), Where("", {"onramp": database.dsn})

    def wish(required: list[str], **more: Any) -> Result:
        schema = {"properties": {"id": {"type": "integer"}, "n": {"type": "integer"}}, "required": required}
        place = {"schema": "public", "table": "log", **more}
        file = tmp_path / "onramp.yaml"
        document = {
            "event_types": {"a": {"schema": schema, "compatibility": "none", "destinations": [place]}}
        }
        file.write_text(yaml.safe_dump(document))
        return apply_file(Editor(log), file, Wish(), where)

    assert "event_types.a: no key identifies a repetition" in wish(["n"]).reason
    assert wish(["n"], unkeyed=True).state is State.APPLIED
    assert wish(["n", "id"]).state is State.APPLIED


def test_a_required_field_whose_column_the_table_generates_is_refused(
    database: Database, tmp_path: Path
) -> None:
    execute(
        database.dsn,
        "CREATE TABLE public.log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, "
        "twice int GENERATED ALWAYS AS (2 * n) STORED)",
    )
    log, where = MemoryLog(), Where("", {"onramp": database.dsn})
    names = ["id", "n", "twice"]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": names}

    def wish() -> Result:
        place = {"schema": "public", "table": "log"}
        file = tmp_path / "onramp.yaml"
        file.write_text(yaml.safe_dump({"event_types": {"a": {"schema": schema, "destinations": [place]}}}))
        return apply_file(Editor(log), file, Wish(), where)

    refused = wish()
    assert refused.state is State.REFUSED
    changes = [line for line in refused.reason.splitlines() if line.startswith("ALTER")]
    assert changes == [
        'ALTER TABLE "public"."log" ALTER COLUMN "id" SET GENERATED BY DEFAULT;',
        'ALTER TABLE "public"."log" ALTER COLUMN "twice" DROP EXPRESSION;',
    ]
    wanted = Wanted(
        schema="public", table="log", open_schemas=["public"], columns=columns_of(schema), unkeyed=True
    )
    with connected("onramp", database.dsn) as conn:
        assert [fact.sql for fact in facts(conn, wanted) if not fact.holds] == changes
    execute(database.dsn, "".join(changes))
    assert wish().state is State.APPLIED


def test_destination_key_that_cannot_be_checked_is_reported_and_the_file_is_applied(tmp_path: Path) -> None:
    file = tmp_path / "onramp.yaml"
    file.write_text(yaml.safe_dump({"event_types": {"a": {"destinations": [{"schema": "s", "table": "t"}]}}}))
    out = Where("", {"onramp": "postgresql://x@127.0.0.1:1/x"}, {"onramp": ("s",)})
    for where, why in ((Where("", {}), "give --dsn"), (out, "cannot be reached")):
        done = apply_file(Editor(MemoryLog()), file, Wish(), where)
        assert done.state is State.APPLIED
        assert '"s"."t" was not checked' in done.reason
        assert why in done.reason


@pytest.mark.parametrize(
    ("field", "texts"),
    [
        (
            {"type": "integer"},
            "1.0 1e3 -2.50e1 9223372036854775807 9223372036854775808 1e30 -0.0 1.5",
        ),
        (
            {"type": "string", "format": "date-time"},
            "2026-01-01T00:00:00.123456000Z 2026-01-01T00:00:00.1234567Z 2016-12-31T23:59:60Z "  # noqa: ISC004
            "2026-01-01T00:00:00+15:59 2026-01-01T00:00:00+18:00 0000-01-01T00:00:00Z 0001-01-01t00:00:00z "
            "9999-12-31T23:59:59Z 2026-01-01T00:00:00-16:00 2026-02-30T00:00:00Z 9999-12-31T16:00:00-08:00 "
            "9999-12-31T15:59:59-08:00 0001-01-01T00:00:00+14:00 0001-01-01T14:00:00+14:00",
        ),
        ({"type": "string", "format": "date"}, "2026-01-01 0000-01-01 0001-01-01 9999-12-31 2026-02-30"),
    ],
)
def test_a_created_table_takes_what_its_type_is_checked_for(
    tables: Tables, field: dict[str, Any], texts: str
) -> None:
    schema = {"properties": {"v": field}}
    tables.bench.execute(create_table("public", "t", columns_of(schema)))
    tables.routes = Routes("onramp", event_routes=(EventRoute("order_placed", "onramp", "public", "t"),))
    checked = compile_schema(with_limits(schema))
    written = [text if field["type"] == "integer" else f'"{text}"' for text in texts.split()]
    passes = {f"e-{n}": checked.is_valid({"v": json.loads(text)}) for n, text in enumerate(written)}
    events = [envelope(f"e-{n}", payload=b'{"v":%b}' % text.encode()) for n, text in enumerate(written)]
    tables.land_values(events)
    landed = {event_id for (event_id,) in tables.bench.rows("SELECT _id FROM public.t")}
    assert landed == {event_id for event_id, is_valid in passes.items() if is_valid}
    assert 0 < len(landed) < len(written)
