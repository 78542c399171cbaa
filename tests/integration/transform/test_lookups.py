"""Snapshots of lookups' tables in a real Postgres, and transforms that read them."""

import itertools
import json
import re
from contextlib import closing
from copy import copy
from typing import Any

import orjson
import psycopg2
import pytest

from services.transform.function import lookups_sql
from services.transform.function.lookups import LookupTable
from services.transform.function.lookups_sql import read_lookup
from shared.errors import TRANSFORM_LOOKUP_UNREADABLE, InfrastructureError
from shared.registry.transforms import Lookup, digest_of_source
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.silent_servers import black_holes
from tests.fixtures.transform_driver import ProcessJobs, driver
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import eventually

ROWS = """
    CREATE TABLE public.airlines (carrier text, name text, founded int, "odd name" numeric);
    INSERT INTO public.airlines
    VALUES ('UA', 'United', 1926, 1.5), ('AA', NULL, 1930, NULL), (NULL, 'x', 1, 1);
"""


def execute(database: Database, statements: str) -> None:
    with closing(psycopg2.connect(database.dsn)) as conn, conn, conn.cursor() as cursor:
        cursor.execute(statements)


def read(database: Database, **fields: object) -> LookupTable:
    given = {
        "database": "onramp",
        "table": "public.airlines",
        "key": "carrier",
        "columns": ["name"],
        **fields,
    }
    return read_lookup("airlines", Lookup.model_validate(given), database.dsn)


def test_a_snapshot_has_the_rows_and_columns_of_the_table(database: Database) -> None:
    execute(database, ROWS)
    table = read(database, columns=["name", "odd name"])
    rows = {key: json.loads(row) for key, row in json.loads(table.content).items()}
    assert rows == {"AA": {"name": None, "odd name": None}, "UA": {"name": "United", "odd name": 1.5}}
    assert read(database, columns=["name", "odd name"]).digest == table.digest
    execute(database, "UPDATE public.airlines SET name = 'American' WHERE carrier = 'AA'")
    assert read(database, columns=["name", "odd name"]).digest != table.digest
    by_number = read(database, key="founded", columns=["carrier"])
    assert json.loads(json.loads(by_number.content)["1926"]) == {"carrier": "UA"}
    names = [f"c{n}" for n in range(64)]  # the most that the registry takes
    execute(database, f"CREATE TABLE public.wide ({', '.join(f'{name} int' for name in names)})")
    execute(database, "INSERT INTO public.wide (c0, c63) VALUES (1, 2)")
    wide = json.loads(read(database, table="public.wide", key="c0", columns=names).content)
    assert json.loads(wide["1"]) == dict.fromkeys(names) | {"c0": 1, "c63": 2}


def test_an_unreadable_table_is_an_error_of_the_system(database: Database) -> None:
    execute(database, ROWS)
    for fields, reason in (
        ({"max_rows": 1}, "more than 1 rows"),
        ({"columns": ["absent"]}, "SQLSTATE 42703"),
        ({"table": "public.absent"}, "SQLSTATE 42P01"),
    ):
        with pytest.raises(InfrastructureError, match=reason) as raised:
            read(database, **fields)
        assert raised.value.fault is TRANSFORM_LOOKUP_UNREADABLE
    execute(database, "INSERT INTO public.airlines VALUES ('UA', 'again', 1, 1)")
    with pytest.raises(InfrastructureError, match=r"two rows of public\.airlines have the same carrier"):
        read(database)


def test_a_server_that_does_not_answer_ends_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups_sql, "PATIENCE_SECONDS", 0.3)
    with (
        black_holes(1) as (dsn,),
        pytest.raises(
            InfrastructureError, match="lookup airlines: database onramp does not answer"
        ) as raised,
    ):
        read(Database(dsn))
    assert raised.value.fault is TRANSFORM_LOOKUP_UNREADABLE


_FUNCTION = """
def transform(event, lookup):
    row = lookup("airlines", "UA")
    return {"event_name": "made", "payload": {"n": event["payload"]["n"], "name": row and row["name"]}}
"""
_AIRLINES = {"database": "onramp", "table": "public.airlines", "key": "carrier", "columns": ["name"]}


def _names(scene: TransformScene) -> dict[int, Any]:
    """Return the name in the output of each event."""
    payloads = [orjson.loads(each.value or b"{}")["payload"] for each in scene.outputs()]
    return {each["n"]: each["name"] for each in payloads}


def test_a_changed_table_is_used_and_a_dropped_one_until_its_snapshot_is_ten_intervals_old(
    kafka: HasBootstrap, database: Database
) -> None:
    scene = TransformScene.make(kafka.bootstrap)
    scene.send_payload(n=0)

    def read_one(name: str, lookup: Lookup) -> LookupTable:
        return read_lookup(name, lookup, database.dsn)

    transform = {"source": _FUNCTION, "digest": digest_of_source(_FUNCTION), "lookups": ["airlines"]}
    tables = {"airlines": {**_AIRLINES, "refresh_s": 1}}
    with driver(scene, jobs=ProcessJobs(), read_lookup=read_one, tables=tables, **transform) as running:
        why = "lookup airlines has not been read yet: table public.airlines of onramp"
        eventually(lambda: running.status.get("reason", "").startswith(why))
        execute(database, ROWS)
        eventually(lambda: _names(scene) == {0: "United"})

        execute(database, "UPDATE public.airlines SET name = 'Onward' WHERE carrier = 'UA'")
        numbers = itertools.count(1)

        def is_swapped() -> bool:
            scene.send_payload(n=next(numbers))
            return "Onward" in _names(scene).values()

        eventually(is_swapped)
        execute(database, "ALTER TABLE public.airlines RENAME TO elsewhere")
        sent = scene.send_payload(n=next(numbers))
        eventually(lambda: sent and scene.offsets()[0] == next(copy(numbers)))
        eventually(lambda: running.status["state"] == "waiting")
        old = r"the snapshot of lookup airlines is 1\d s old: table public"
        assert re.match(old, running.status["reason"])
        eventually(lambda: not running.status["running_lanes"])
        scene.send_payload(n=(waits := next(numbers)))
        eventually(lambda: sum(running.status["lag"].values()) == 1)
        assert waits not in _names(scene)

        execute(database, "ALTER TABLE public.elsewhere RENAME TO airlines")
        eventually(lambda: _names(scene).get(waits) == "Onward")
        assert running.status["state"] == "running"
    assert not scene.parked()
    assert sorted(_names(scene)) == list(range(waits + 1))
