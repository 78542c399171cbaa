"""Errors raised by a table's own function count against the row, not against the table or the server."""

import pytest

from tests.fixtures.writer import event
from tests.integration.writer.waiting_bench import Hall

#: A state of nobody's, and names of the server's own troubles.
STATES = ["XX123", "ON001", "57014", "08006", "53100", "53200", "28000", "55P03", "40001"]


def _raising(hall: Hall, condition: str, state: str) -> None:
    hall.bench.execute(
        "CREATE OR REPLACE FUNCTION public.judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF {condition} THEN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$;"
        "DROP TRIGGER IF EXISTS judge ON events.order_placed;"
        "CREATE TRIGGER judge BEFORE INSERT ON events.order_placed "
        "FOR EACH ROW EXECUTE FUNCTION public.judge()"
    )


@pytest.mark.parametrize("state", STATES)
def test_a_row_that_its_tables_function_refuses_is_parked_with_its_code(hall: Hall, state: str) -> None:
    hall.settle(event("a"), event("x", "shipped"))
    _raising(hall, "NEW._id = 'bad'", state)
    hall.settle(event("b"), event("bad"), event("c"), event("y", "shipped"))
    assert hall.landed("shipped") == ["x", "y"]
    for _ in range(4):
        if not hall.release():
            break
    assert (hall.landed(), hall.parked(), hall.held()) == (["a", "b", "c"], [3], {})
    assert state in hall.bench.one("SELECT error->>'detail' FROM onramp.outbox")
    hall.settle(event("d"))
    assert hall.landed() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("state", ["ON001", "53400"])
def test_a_table_whose_function_refuses_every_row_is_no_rows_fault(hall: Hall, state: str) -> None:
    hall.settle(event("a"))
    _raising(hall, "true", state)
    hall.settle(event("b"))
    for _ in range(4):
        assert hall.release() == ["events.order_placed"]
    hall.settle(event("c"))
    for _ in range(4):
        assert hall.release() == ["events.order_placed"]
    assert (hall.landed(), hall.waiting(), hall.parked()) == (["a"], [1, 2], [])
    _raising(hall, "false", state)
    assert hall.release() == []
    assert hall.landed() == ["a", "b", "c"]


def test_internal_error_of_one_value_parks_the_row_alone(hall: Hall) -> None:
    hall.settle(event("a"))
    hall.bench.execute(
        "CREATE FUNCTION public.parse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW._id = 'bad' THEN PERFORM array_in('{1}', 0, -1); END IF; RETURN NEW; END $$;"  # XX000
        "CREATE TRIGGER p BEFORE INSERT ON events.order_placed FOR EACH ROW EXECUTE FUNCTION public.parse()"
    )
    hall.settle(event("b"), event("bad"), event("c"))
    for _ in range(4):
        if not hall.release():
            break
    assert (hall.landed(), hall.parked(), hall.held()) == (["a", "b", "c"], [2], {})


def test_error_of_another_server_blocks_only_the_table_whose_trigger_uses_it(hall: Hall) -> None:
    hall.settle(event("a"), event("x", "shipped"))
    hall.bench.execute(
        "CREATE FUNCTION public.use() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_database_size('absent'); RETURN NEW; END $$;"  # 3D000, which is not raised by RAISE
        "CREATE TRIGGER use AFTER INSERT ON events.order_placed FOR EACH ROW EXECUTE FUNCTION public.use()"
    )
    hall.settle(event("b"), event("y", "shipped"))
    assert hall.landed("shipped") == ["x", "y"]
    assert (hall.landed(), hall.waiting(), hall.parked()) == (["a"], [2], [])
    hall.bench.execute("DROP TRIGGER use ON events.order_placed")
    assert hall.release() == []
    assert hall.landed() == ["a", "b"]


def test_many_of_them_before_the_first_good_one(hall: Hall) -> None:
    hall.settle(event("a"))
    _raising(hall, "NEW._id LIKE 'bad%'", "ON001")
    hall.settle(*(event(f"bad{n}") for n in range(20)), event("b"))
    for _ in range(4):
        if not hall.release():
            break
    assert (hall.landed(), hall.parked()) == (["a", "b"], list(range(1, 21)))


def test_lock_error_of_the_server_makes_the_rows_wait_and_parks_no_row(hall: Hall) -> None:
    """A lock that one row's trigger wants is the same state as a raised one, and that row waits for it."""
    hall.settle(event("a"))
    hall.bench.execute(
        "CREATE FUNCTION public.wants() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW._id = 'late' THEN LOCK TABLE public.other; END IF; RETURN NEW; END $$;"
        "CREATE TABLE public.other (id int); CREATE TRIGGER wants BEFORE INSERT ON events.order_placed "
        "FOR EACH ROW EXECUTE FUNCTION public.wants()"
    )
    with hall.locked("public.other"):
        hall.settle(event("b"), event("late"), event("c"))
        for _ in range(4):
            assert hall.release() == ["events.order_placed"]
        assert (hall.waiting(), hall.parked()) == ([1, 2, 3], [])
    assert hall.release() == []
    assert hall.landed() == ["a", "b", "late", "c"]
