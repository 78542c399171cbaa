"""Events that omit different fields: they are written together, and none is changed by another's columns."""

import secrets
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from services.writer.persist import typed_table
from shared.errors import ID_REUSE, NO_PERMISSION
from tests.fixtures.writer import execute
from tests.integration.writer_tables.conftest import Tables, destination, packet

NAMES = "abcdef"


def test_events_that_omit_different_fields_land_by_one_copy(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.bench.execute(
        f"CREATE TABLE public.t (id int PRIMARY KEY, {', '.join(f'{n} int' for n in NAMES)})"
    )
    copies, copy = list[int](), typed_table.copy_texts

    def counted(*given: Any) -> int:
        copies.append(copy(*given))
        return copies[-1]

    monkeypatch.setattr(typed_table, "copy_texts", counted)
    events = [{"id": i} | {n: i for bit, n in enumerate(NAMES) if i >> bit & 1} for i in range(64)]
    assert tables.land("t", *events).landed.total() == 64
    assert copies == [64]
    rows = tables.bench.rows("SELECT id, a, b, c, d, e, f FROM public.t ORDER BY id")
    assert rows == [(e["id"], *(e.get(n) for n in NAMES)) for e in events]
    again = tables.land("t", *events)
    assert (again.landed.total(), again.parked) == (0, [])


def test_other_bodies_with_used_ids_are_compared_at_once(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ", ".join(f"{name} int" for name in NAMES)
    tables.bench.execute(f"CREATE TABLE public.t (id int PRIMARY KEY, {columns})")
    events = [{"id": i} | {n: i for bit, n in enumerate(NAMES) if i >> bit & 1} for i in range(64)]
    tables.land("t", *events)
    calls, park_others = list[None](), typed_table.park_others

    def counted(*given: Any, **named: Any) -> None:
        calls.append(None)
        park_others(*given, **named)

    monkeypatch.setattr(typed_table, "park_others", counted)
    done = tables.land("t", *(event | {"a": -1} for event in events))
    assert {p.error.fault for p in done.parked} == {ID_REUSE}
    assert (len(done.parked), len(calls)) == (64, 1)


def test_column_with_a_default_has_it_only_where_an_event_omits_the_field(tables: Tables) -> None:
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY, v int DEFAULT 5, w int)")
    tables.land("t", {"id": 1}, {"id": 2, "w": 2}, {"id": 3, "v": None}, {"id": 4, "v": 4, "w": 4})
    rows = tables.bench.rows("SELECT id, v, w FROM public.t ORDER BY id")
    assert rows == [(1, 5, None), (2, 5, 2), (3, None, None), (4, 4, 4)]


def test_field_that_a_repeat_omits_is_not_compared(tables: Tables) -> None:
    tables.bench.execute("CREATE TABLE public.t (id int PRIMARY KEY, v int, w int)")
    events = [{"id": 1}, {"id": 2, "v": 2}, {"id": 3, "w": 3}]
    tables.land("t", *events)
    tables.bench.execute("UPDATE public.t SET v = 9, w = 9 WHERE id = 1")
    done = tables.land("t", *events, {"id": 1, "v": None}, {"id": 4, "w": 4})
    assert [(p.row_index, p.error.fault) for p in done.parked] == [(3, ID_REUSE)]
    assert (done.landed.total(), done.duplicates().total()) == (1, 3)


def test_right_that_one_row_lacks_is_no_other_rows_error(tables: Tables) -> None:
    role = f"role_{secrets.token_hex(4)}"
    tables.bench.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'; CREATE TABLE public.t (id int PRIMARY KEY, v int, w int);"
        f"GRANT INSERT (id, v), SELECT ON public.t TO {role}"
    )
    parts = urlsplit(tables.bench.dsn)
    dsn = urlunsplit(parts._replace(netloc=f"{role}:x@{parts.netloc.rpartition('@')[2]}"))
    values = [packet(e, destination("t")) for e in ({"id": 1}, {"id": 2, "v": 2}, {"id": 3, "w": 3})]
    (done,) = tables.land_values(values, replace(tables.bench.database, dsn=dsn)).values()
    assert [(p.row_index, p.error.fault) for p in done.parked] == [(2, NO_PERMISSION)]
    assert tables.bench.rows("SELECT id, v FROM public.t ORDER BY id") == [(1, None), (2, 2)]
    execute(tables.bench.dsn, f"DROP OWNED BY {role}; DROP ROLE {role}")
