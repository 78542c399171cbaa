"""Another event under a key that a typed table has is parked as `id_reuse`; a repeat is a duplicate."""

import orjson
import pytest

from services.writer.model.routes import EventRoute, Routes
from services.writer.persist.persist import PersistResult
from shared.errors import ID_REUSE
from tests.fixtures.writer import event
from tests.integration.writer_tables.conftest import Tables, states

ROUTES = Routes("onramp", event_routes=(EventRoute("order_placed", "onramp", "public", "t"),))


def _summary(done: PersistResult) -> tuple[int, int, list[str]]:
    """Landed, duplicates, and the codes of what was parked."""
    return done.landed.total(), done.duplicates().total(), [p.error.fault.code for p in done.parked]


@pytest.mark.parametrize("batches", [1, 2])
def test_an_events_id_with_another_body_is_parked(tables: Tables, batches: int) -> None:
    tables.bench.execute(
        "CREATE TABLE public.t (_id text PRIMARY KEY, _version text, _timestamp timestamptz, "
        "_received_at timestamptz, _offset bigint, n int, j json)"
    )
    tables.routes = ROUTES
    first = event("a", n=1, j=[1])
    others = [
        event("a", n=2, j=[1]),
        event("a", n=1, j=[2]),
        first.replace(b'"version":"1"', b'"version":"2"'),
        first.replace(b"08:00:00Z", b"08:00:01Z"),
    ]
    values = [first, *others, first, event("b", n=1)]
    if batches == 1:
        (done,) = tables.land_values(values).values()
    else:
        tables.land_values(values[:1])
        (done,) = tables.land_values(values[1:]).values()
    assert _summary(done) == (3 - batches, 1, [ID_REUSE.code] * len(others))
    assert "{" not in orjson.dumps(states(done)).decode()
    assert tables.bench.rows("SELECT _id, n, j::text, _version FROM public.t ORDER BY 1") == [
        ("a", 1, "[1]", "1"),
        ("b", 1, None, "1"),
    ]


#: A type of texts whose own operators take no notice of case, in a schema that is not on the pinned path.
FOLDED = (
    """
    CREATE TYPE public.folded;
    CREATE FUNCTION public.folded_in(cstring) RETURNS public.folded
        IMMUTABLE STRICT LANGUAGE internal AS 'textin';
    CREATE FUNCTION public.folded_out(public.folded) RETURNS cstring
        IMMUTABLE STRICT LANGUAGE internal AS 'textout';
    CREATE TYPE public.folded (INPUT = public.folded_in, OUTPUT = public.folded_out,
        LIKE = text, CATEGORY = 'S');
    CREATE CAST (public.folded AS text) WITHOUT FUNCTION AS IMPLICIT;
    CREATE FUNCTION public.folded_cmp(public.folded, public.folded) RETURNS int
        IMMUTABLE STRICT LANGUAGE sql AS $$ SELECT pg_catalog.bttextcmp(lower($1::text), lower($2::text)) $$;
"""
    + "".join(
        f"CREATE FUNCTION public.folded_{name}(public.folded, public.folded) RETURNS bool "
        f"IMMUTABLE STRICT LANGUAGE sql AS $$ SELECT lower($1::text) {sign} lower($2::text) $$;"
        f"CREATE OPERATOR public.{sign} (LEFTARG = public.folded, RIGHTARG = public.folded, "
        f"FUNCTION = public.folded_{name});"
        for name, sign in (("lt", "<"), ("le", "<="), ("eq", "="), ("ge", ">="), ("gt", ">"))
    )
    + """
    CREATE OPERATOR CLASS public.folded_ops DEFAULT FOR TYPE public.folded USING btree AS
        OPERATOR 1 public.<, OPERATOR 2 public.<=, OPERATOR 3 public.=, OPERATOR 4 public.>=,
        OPERATOR 5 public.>, FUNCTION 1 public.folded_cmp(public.folded, public.folded);
"""
)
TYPES = (
    FOLDED
    + """
    CREATE DOMAIN public.small AS int;
    CREATE DOMAIN public.amount AS numeric(5,2);
    CREATE TYPE public.kind AS ENUM ('x');
    CREATE TYPE public."odd % {} type" AS ENUM ('x', 'y');
"""
)
#: A type, a key of it, and another text that it takes for the same key.
KEYS = [
    ("int", b"1", b"1"),
    ("char(8)", b'"a"', b'"a "'),
    ("numeric", b"1.0", b"1.00"),
    ("date", b'"2026-01-02"', b'"2026-01-02"'),
    ('text COLLATE "C"', b'"a"', b'"a"'),
    ("public.small", b"1", b"1"),
    ("public.kind", b'"x"', b'"x"'),
    ("public.folded", b'"a"', b'"A"'),
]
#: A type, a value of it, and another one.
VALUES = [
    ("json", b'{"b":1, "a":2}', b'{"b":1}'),
    ("jsonb", b'{"b":1.0,"a":2}', b"null"),
    ("numeric(6,3)", b"1.5", b"1.501"),
    ("real", b"0.1", b"0.2"),
    ("timestamptz(3)", b'"2026-01-02T03:04:05.120+01:00"', b'"2026-01-02T03:04:05.121+01:00"'),
    ("interval", b'"1 month"', b'"30 days"'),
    ("char(4)", b'"ab"', b'"aB"'),
    ("bit(3)", b'"101"', b'"100"'),
    ("point", b'"(1,2)"', b'"(1,3)"'),
    ("json[]", b"[1,[2]]", b"[1]"),
    ("int4range", b'"[1,2]"', b'"[1,3]"'),
    ("public.amount", b"1.50", b"1.51"),
    ('public."odd % {} type"', b'"x"', b'"y"'),
    ("public.folded", b'"a"', b'"A"'),
    ("bytea", b'"\\\\x0A"', b'"\\\\x0b"'),
]


def test_an_owners_own_key_with_other_values_is_parked(tables: Tables) -> None:
    tables.bench.execute(TYPES)
    found = {}
    for number, (type_, key, spelled) in enumerate(KEYS):
        tables.bench.execute(f"CREATE TABLE public.t{number} (k {type_} PRIMARY KEY, v text)")
        old, new = b'{"k":%b,"v":"old"}' % key, b'{"k":%b,"v":"new"}' % spelled
        together = _summary(tables.land(f"t{number}", old, new, old))
        later = _summary(tables.land(f"t{number}", new, old))
        found[type_] = together, later, tables.bench.rows(f"SELECT v FROM public.t{number}")  # noqa: S608
    right = (1, 1, [ID_REUSE.code]), (0, 1, [ID_REUSE.code]), [("old",)]
    assert {type_: each for type_, each in found.items() if each != right} == {}


def test_a_repeat_is_a_duplicate_whatever_the_type_of_its_columns(tables: Tables) -> None:
    tables.bench.execute(TYPES)
    found = {}
    for number, (type_, value, other) in enumerate(VALUES):
        name = f"t{number}"
        tables.bench.execute(
            f"CREATE TABLE public.{name} (id int PRIMARY KEY, v {type_}, w text DEFAULT 'x')"
        )
        values = [b'{"id":1,"v":%b}' % value, b'{"id":2,"v":null}']
        tables.land(name, *values)
        tables.bench.execute(f"UPDATE public.{name} SET w = 'its owner has another'")  # noqa: S608
        found[type_] = _summary(tables.land(name, *values, b'{"id":1,"v":%b}' % other))
    assert {type_: each for type_, each in found.items() if each != (0, 2, [ID_REUSE.code])} == {}


def test_another_body_is_parked_in_a_table_with_rules(tables: Tables) -> None:
    tables.bench.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, v int);"
        "CREATE RULE r AS ON INSERT TO public.t WHERE NEW.v = 13 DO INSTEAD NOTHING"
    )
    tables.land("t", {"id": 1, "v": 1})
    assert _summary(tables.land("t", {"id": 1, "v": 1}, {"id": 1, "v": 2})) == (0, 1, [ID_REUSE.code])
