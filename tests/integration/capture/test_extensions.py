"""Types of Postgres' extensions: values arrive unchanged, or the type is reported."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import psycopg2
import pytest

from services.cdc.setup.check_sql import facts
from stack.connect import Connect
from stack.postgres import Postgres
from tests.fixtures.contrib import packaged
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.sources import Captured, captured, flows, password_of
from tests.fixtures.writer import eventually
from tests.integration.capture.test_types import published, types_of

_EXTENSIONS: Final = ("citext", "ltree", "hstore", "cube", "seg", "isn", "intarray", "earthdistance", "lo")
OWN: Final = (
    *(f"CREATE EXTENSION {name} SCHEMA public CASCADE" for name in _EXTENSIONS if name != "cube"),
    "CREATE DOMAIN app.word AS public.citext",
    "CREATE DOMAIN app.label AS public.ltree",
)
#: A type, and SQL of an ordinary value, an extreme one and an empty one.
TYPES: Final = {
    "public.citext": ("'Aa'", "E'\\u00c9\\n\\\\x41'", "''"),
    "public.citext[]": ("'{Aa,a}'", '\'{NULL,"","a,b"}\'', "'{}'"),
    "public.ltree": ("'Top.a_1'", "'1.2.3'", "''"),
    "public.lo": ("7", "4294967295", "0"),
    "app.word": ("'Aa'", "'4161'", "''"),
    "app.label": ("'Top.a_1'", "'61.62'", "''"),
    "xml": ("'<a>1</a>'", "'<a b=\"\"/>'", "''"),
}
REFUSED: Final = (
    *("public.ltree[]", "public.lquery", "public.ltxtquery", "public.hstore", "public.hstore[]"),
    *("public.cube", "public.cube[]", "public.seg", "public.query_int", "app.word[]", "app.label[]"),
    *("public.isbn", "public.isbn[]", "public.isbn13", "public.issn", "public.ean13", "public.upc"),
)


@pytest.fixture(scope="module")
def contrib(
    server: Postgres, connect: Connect, kafka: HasBootstrap, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Captured]:
    """A source on a server that has them; the worker knows its password."""
    folder = tmp_path_factory.mktemp("packaged")
    with (
        packaged(folder, password_of(server.dsn), FAST) as of_packages,
        captured(of_packages, connect, kafka.bootstrap, OWN) as made,
    ):
        yield made


def _insert(first: int) -> str:
    rows = [[values[n] for values in TYPES.values()] for n in range(3)] + [["NULL"] * len(TYPES)]
    texts = (f"({first + n}, {', '.join(row)})" for n, row in enumerate(rows))
    return "; ".join(f"INSERT INTO app.types VALUES {text}" for text in texts)  # noqa: S608


def test_each_type_comes_out_as_it_is_from_snapshot_and_stream(contrib: Captured) -> None:
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(TYPES))
    contrib.execute(
        f"CREATE TABLE app.types (id int PRIMARY KEY, {columns})",
        "ALTER TABLE app.types ALTER c0 SET STORAGE EXTERNAL",
        "CREATE TABLE app.words (word public.citext PRIMARY KEY, n int)",
        _insert(1),
    )
    reconciler = contrib.new_reconciler()
    flows(reconciler)
    contrib.execute(
        _insert(11),
        "INSERT INTO app.types (id, c0) VALUES (21, repeat('A', 3000))",
        "UPDATE app.types SET c3 = 1 WHERE id = 21",
        "INSERT INTO app.words VALUES ('A', 1); UPDATE app.words SET word = 'a', n = 2",
        "DELETE FROM app.words WHERE word = 'A'",
    )
    eventually(lambda: len(contrib.changes("types")) == 10 and len(contrib.changes("words")) == 4, 60)
    reconciler.close()

    differ = []
    types, changes = types_of(contrib, "app.types"), contrib.changes("types")
    with closing(psycopg2.connect(contrib.published)) as conn:
        conn.autocommit = True
        for change in changes[:8]:
            for n, type_ in enumerate(TYPES):
                query = f"SELECT c{n}::text FROM app.types WHERE id = %s"  # noqa: S608
                ((theirs,),) = contrib.ask(query, change["after"]["id"])
                ours = published(conn, types[f"c{n}"], change, f"c{n}")
                if theirs != ours:
                    differ.append((type_, change["op"], theirs, ours))
    assert not differ
    assert {change["op"] for change in changes[:8]} == {"r", "c"}
    assert changes[9]["after"]["c0"] == "__debezium_unavailable_value"
    # Equal there, and two keys here: the one goes before the other comes.
    told = [(c["op"], (c["before"] or c["after"])["word"]) for c in contrib.changes("words")]
    assert told == [("c", "A"), ("d", "A"), ("c", "a"), ("d", "a")]


def test_a_column_of_a_type_whose_changes_tell_too_little_is_named(contrib: Captured) -> None:
    refused = ", ".join(f"r{n} {type_}" for n, type_ in enumerate(REFUSED))
    contrib.execute(f"CREATE TABLE app.refused (id int PRIMARY KEY, {refused}, far public.earth)")
    told = {fact.what for fact in facts(contrib.name, contrib.source, contrib.dsn, rows=False)}
    for n, type_ in enumerate(REFUSED):
        assert any(w.startswith(f"app.refused.r{n} is of the type {type_} (opaque),") for w in told), type_
    assert any(w.startswith("app.refused.far is of the type public.cube (opaque),") for w in told)
