"""Database encodings: texts stay unchanged, and a text that a database cannot store is parked alone."""

import secrets
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg2
import pytest

from services.ops import totals_sql
from services.ops.findings import Source, Table
from services.writer.postgres.pool import connected
from shared.errors import UNKNOWN_FIELD, UNKNOWN_TABLE
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.writer import PARTITION, Bench, arrivals, envelope, event
from tests.integration.writer_tables.conftest import Tables, destination, packet, states

CITY = "Zürich"
EAST = "東京"


def _text(bench: Bench, statement: str) -> list[tuple[object, ...]]:
    """Rows as a client reads them that says what it takes."""
    conn = psycopg2.connect(bench.dsn, client_encoding="UTF8")
    try:
        with conn.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()
    finally:
        conn.close()


def _cities(bench: Bench) -> list[tuple[object, ...]]:
    return _text(bench, "SELECT _id, payload->>'city' FROM events.order_placed ORDER BY 1")


@pytest.fixture(params=["role", "database", "address", "options", "environment"])
def latin1_client(request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The bench where a role, a database, an address or a variable names LATIN1 for its clients."""
    parts = urlsplit(bench.dsn)
    name = parts.path.removeprefix("/")
    if request.param == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    elif request.param == "database":
        bench.execute(f"ALTER DATABASE {name} SET client_encoding = 'LATIN1'")
    elif request.param == "role":
        bench.execute(f"ALTER ROLE {bench.user} IN DATABASE {name} SET client_encoding = 'LATIN1'")
    else:
        more = {"client_encoding": "LATIN1"}
        if request.param == "options":
            more = {"options": "-c client_encoding=LATIN1"}
        query = urlencode([*parse_qsl(parts.query), *more.items()], quote_via=quote)
        return Bench(urlunsplit(parts._replace(query=query)))
    return bench


def test_no_role_database_or_address_changes_a_byte(latin1_client: Bench) -> None:
    for role in ("land", "driver", "ddl", "migrate"):
        with connected(latin1_client.database, role) as conn:
            assert conn.info.parameter_status("client_encoding") == "UTF8"
    latin1_client.settle(arrivals([event("a", city=CITY), event("b", city=EAST)]))
    assert _cities(latin1_client) == [("a", CITY), ("b", EAST)]
    with totals_sql.opened("onramp", latin1_client.dsn) as snapshot:
        found = snapshot.rows(Table("onramp", "events", "order_placed"), Source(*PARTITION))
        assert EAST in [row.payload for row in found][1]


@pytest.fixture
def encoded(request: pytest.FixtureRequest, postgres: HasDsn) -> Iterator[Bench]:
    """A bench in a database of the parameter's encoding."""
    name = "encoded_" + secrets.token_hex(4)
    owner = Bench(postgres.dsn)
    conn = psycopg2.connect(owner.dsn)
    conn.autocommit = True
    try:
        with conn.cursor() as cursor:
            cursor.execute(
                f"CREATE DATABASE {name} ENCODING '{request.param}' TEMPLATE template0 "
                "LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER libc"
            )
        yield Bench(urlunsplit(urlsplit(postgres.dsn)._replace(path=f"/{name}"))).migrate().prepare()
        with conn.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        conn.close()


@pytest.mark.parametrize("encoded", ["LATIN1"], indirect=True)
def test_text_that_latin1_cannot_store_is_parked_and_adjacent_events_land(encoded: Bench) -> None:
    escaped = envelope("e", payload=b'{"city":"Z\\u00fcrich"}')
    beyond = envelope("f", payload=b'{"city":"\\u6771"}')
    values = [event("a", city=CITY), event("b", city=EAST), event("c"), escaped, beyond]
    done = encoded.settle(arrivals(values))
    assert (done.failures, done.parked) == ((), 2)
    assert _cities(encoded) == [("a", CITY), ("c", None), ("e", CITY)]
    found = encoded.rows("SELECT \"offset\", error->>'detail' FROM onramp.outbox ORDER BY 1")
    assert [n for n, _ in found] == [1, 4]
    assert all("22P05" in detail for _, detail in found)
    assert encoded.one('SELECT value FROM onramp.outbox WHERE "offset" = 1').tobytes() == values[1]


@pytest.mark.parametrize("encoded", ["LATIN1"], indirect=True)
def test_a_typed_table_says_which_column_cannot_hold_it(encoded: Bench) -> None:
    encoded.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text, w text)")
    done = Tables(encoded).land("t", {"id": 1, "v": CITY}, {"id": 2, "w": EAST, "v": CITY}, {"id": 3})
    assert done.landed.total() == 2
    (reason,) = states(done)
    assert "22P05" in reason
    assert "column w" in reason
    assert _text(encoded, "SELECT id, v FROM public.t ORDER BY 1") == [(1, CITY), (3, None)]


@pytest.mark.parametrize("encoded", ["LATIN1"], indirect=True)
def test_names_that_latin1_cannot_hold_are_parked_like_other_unknown_ones(encoded: Bench) -> None:
    encoded.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    values = [
        packet({"id": 1}, destination(EAST)),
        packet({"id": 2, EAST: 1}, destination("t")),
        packet({"id": 3}, destination("t")),
        packet({"id": 4}, destination(CITY)),
    ]
    done = encoded.settle(arrivals(values))
    assert (done.failures, done.parked) == ((), 3)
    assert encoded.rows("SELECT id FROM public.t") == [(3,)]
    found = encoded.rows("SELECT error->>'code' FROM onramp.outbox ORDER BY \"offset\"")
    assert found == [(UNKNOWN_TABLE.code,), (UNKNOWN_FIELD.code,), (UNKNOWN_TABLE.code,)]


@pytest.mark.parametrize("encoded", ["SQL_ASCII"], indirect=True)
def test_sql_ascii_holds_the_bytes_as_they_are(encoded: Bench) -> None:
    done = encoded.settle(arrivals([event("a", city=CITY), event("b", city=EAST)]))
    assert (done.failures, done.parked) == ((), 0)
    assert _cities(encoded) == [("a", CITY), ("b", EAST)]
    # An escape would have to be converted, and this database does not know to what.
    escaped = envelope("c", payload=b'{"city":"\\u6771"}')
    done = encoded.settle(arrivals([escaped, event("d")], first=2))
    assert (done.failures, done.parked) == ((), 1)
    assert "22P05" in encoded.one("SELECT error->>'detail' FROM onramp.outbox")


def test_the_sessions_read_texts_one_way_whatever_a_role_says(bench: Bench) -> None:
    """An interval's sign and an array's NULL mean what the settings say: they are pinned."""
    role = f"ALTER ROLE {bench.user} IN DATABASE {urlsplit(bench.dsn).path.removeprefix('/')}"
    bench.execute(
        f"{role} SET intervalstyle = sql_standard; {role} SET array_nulls = off;"
        "CREATE TABLE public.t (id int PRIMARY KEY, i interval, a text[])"
    )
    Tables(bench).land("t", {"id": 1, "i": "-1 days 02:00:00", "a": [None]})
    assert bench.rows("SELECT i = '-22 hours', a FROM public.t") == [(True, [None])]
