"""Large values (TOAST) that an update leaves unchanged, by type; NULL in columns with a default."""

from typing import Final

import orjson
import pytest
from psycopg2 import sql

from services.cdc.merge import placeholders
from services.cdc.merge.column_types import is_silent
from tests.fixtures.sources import Captured, flows
from tests.fixtures.writer import eventually
from tests.integration.capture.test_types import OWN, TYPES, types_of

_TEXT: Final = "repeat('x', 3000)"
_MANY: Final = "generate_series(1, 1000) i"
#: SQL of a value that is stored out of line, of those that can be; of an array it is made of its elements.
LARGE: Final = {
    "text": _TEXT,
    "character varying": _TEXT,
    "character(3000)": _TEXT,
    "bytea": "decode(repeat('00ff', 1500), 'hex')",
    "numeric": "repeat('9', 8000)::numeric",
    "json": "to_json(repeat('x', 3000))",
    "jsonb": "to_jsonb(repeat('x', 3000))",
    "tsvector": f"(SELECT string_agg('w' || i, ' ')::tsvector FROM {_MANY})",  # noqa: S608
    "jsonpath": "('$.\"' || repeat('x', 3000) || '\"')::jsonpath",
    "numrange": "('[' || repeat('9', 8000) || ',)')::numrange",
    "int4multirange": f"(SELECT range_agg(int4range(2 * i, 2 * i + 1)) FROM {_MANY})",  # noqa: S608
    "app.pair": "ROW(1, repeat('x', 3000))::app.pair",
    "app.bytes": "decode(repeat('00ff', 1500), 'hex')",
    "app.numbers": f"(SELECT array_agg(i) FROM {_MANY})",  # noqa: S608
} | {
    type_: f"(SELECT array_agg(e) FROM unnest({usual}::{type_}) e, {_MANY})"  # noqa: S608
    for type_, (usual, *_) in TYPES.items()
    if type_.endswith("[]")
}


@pytest.fixture(scope="module")
def shop(shop_of_module: Captured) -> Captured:
    return shop_of_module


def test_null_is_null_where_a_column_has_a_default(shop: Captured) -> None:
    shop.execute(
        """CREATE TABLE app.defaults
        (id int PRIMARY KEY, a int DEFAULT 5, b text DEFAULT 'x', c numeric DEFAULT 1)""",
        "INSERT INTO app.defaults VALUES (1, NULL, NULL, NULL)",
    )
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute(
        "INSERT INTO app.defaults VALUES (2, NULL, NULL, NULL)",
        "INSERT INTO app.defaults (id) VALUES (3)",
        "UPDATE app.defaults SET a = NULL, b = NULL, c = NULL WHERE id = 3",
    )
    eventually(lambda: len(shop.changes("defaults")) == 4, 60)
    reconciler.close()
    found = [tuple(change["after"].values()) for change in shop.changes("defaults")]
    assert found == [(n, None, None, None) for n in (1, 2)] + [(3, 5, "x", "1"), (3, None, None, None)]


def test_unchanged_large_value_is_a_placeholder_or_null_if_its_type_is_known_as_silent(
    shop: Captured,
) -> None:
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(LARGE))
    storage = ", ".join(f"ALTER c{n} SET STORAGE EXTERNAL" for n in range(len(LARGE)))
    shop.execute(
        *OWN,
        f"CREATE TABLE app.large (id int PRIMARY KEY, n int, {columns}) WITH (toast_tuple_target = 128)",
        f"ALTER TABLE app.large {storage}",
    )
    reconciler = shop.new_reconciler()
    flows(reconciler)
    shop.execute(
        f"INSERT INTO app.large VALUES (1, 1, {', '.join(LARGE.values())})",  # noqa: S608
        "UPDATE app.large SET n = 2",
    )
    eventually(lambda: len(shop.changes("large")) == 2, 60)
    reconciler.close()
    after, types = shop.changes("large")[-1]["after"], types_of(shop, "app.large")
    for n, type_ in enumerate(LARGE):
        told = orjson.dumps(after[f"c{n}"]).decode()
        if is_silent(types[f"c{n}"]):
            assert told == "null", type_
        else:
            query = sql.SQL("SELECT {}::jsonb = ANY ({})").format(sql.Literal(told), placeholders.ALL)
            assert shop.ask(query) == [(True,)], (type_, told[:100])


def test_table_with_an_update_that_would_fail_the_source_is_excluded(shop: Captured) -> None:
    before = shop.slot_session()
    shop.execute(
        "CREATE TABLE app.required (id int PRIMARY KEY, n int, a numeric[] NOT NULL, b text[] NOT NULL)",
        "ALTER TABLE app.required ALTER a SET STORAGE EXTERNAL",
    )
    reconciler = shop.new_reconciler()
    assert "let a CHECK forbid it" in flows(reconciler).reason
    # The session of the configuration before still captures the table until Kafka Connect has ended it.
    eventually(lambda: shop.slot_session() not in (None, before), 60)
    shop.execute(
        f"INSERT INTO app.required VALUES (1, 1, {LARGE['numeric(10,2)[]']}, '{{}}')",  # noqa: S608
        "UPDATE app.required SET n = 2",
        "INSERT INTO app.orders (id) VALUES (2)",
    )
    eventually(lambda: len(shop.changes("orders")) == 2, 60)
    assert shop.changes("required") == []

    shop.execute("ALTER TABLE app.required ALTER a DROP NOT NULL, ADD CHECK (a IS NOT NULL)")
    source_state = reconciler.reconcile().source_state
    assert source_state is not None
    assert not source_state.excluded_tables
    reconciler.close()
