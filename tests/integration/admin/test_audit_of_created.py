"""Audit of tables with `create: true` by receipt: all rows are checked, and planted faults are findings."""

import pytest

from services.writer.model.routes import EventRoute, Routes
from shared.contracts.tables import columns_of, create_table
from tests.fixtures.writer import envelope, event
from tests.integration.admin.conftest import BAD, Stage

SCHEMA = {
    "required": ["n"],
    "properties": {
        "n": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "x%s": {"type": "string"},
        "payload": {"type": "object"},
    },
}
SENT = b'{"n":1,"at":"2026-11-21T09:00:00+01:00","x%s":"a","payload":{"b":[1.50]}}'
COPY = """
    INSERT INTO public."t%" (_id, _event_name, _timestamp, _version, _received_at,
        _topic, _partition, _offset, n)
    SELECT 'ghost', _event_name, _timestamp, _version, _received_at, _topic, _partition, {}, n
    FROM public."t%" WHERE _id = 'e-0'
"""


@pytest.fixture
def created(stage: Stage) -> Stage:
    """0 and 1 land, 2 repeats 0, 3 is parked."""
    stage.execute(create_table("public", "t%", columns_of(SCHEMA)))
    routes = Routes("onramp", event_routes=(EventRoute(stage.name, "onramp", "public", "t%"),))
    first = event("e-0", stage.name, n=7)
    stage.settle(first, envelope("e-1", stage.name, SENT), routes=routes)
    stage.settle(first, envelope("e-3", stage.name, BAD), routes=routes)
    return stage


def test_nothing_of_a_created_table_is_unchecked(created: Stage) -> None:
    report = created.audit()
    assert (report.findings, report.unchecked) == ([], [])
    assert report.lines[0].outcomes == {"duplicate": 1, "landed": 2, "parked": 1}


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        ("DELETE FROM public.\"t%\" WHERE _id = 'e-1'", {("lost", 1), ("wrong_total", None)}),
        (COPY.format("77"), {("phantom", 77), ("wrong_total", None)}),
        (COPY.format("0"), {("duplicate", 0), ("wrong_total", None)}),
        ("UPDATE public.\"t%\" SET n = 8 WHERE _id = 'e-1'", {("corrupt", 1)}),
        ("UPDATE public.\"t%\" SET at = now() WHERE _id = 'e-1'", {("corrupt", 1)}),
        ("UPDATE public.\"t%\" SET at = 'infinity' WHERE _id = 'e-1'", {("corrupt", 1)}),
        ("UPDATE public.\"t%\" SET _timestamp = '10000-01-01Z' WHERE _id = 'e-1'", {("corrupt", 1)}),
        ("UPDATE public.\"t%\" SET payload = NULL WHERE _id = 'e-1'", {("corrupt", 1)}),
        ("UPDATE public.\"t%\" SET _id = 'e-9' WHERE _id = 'e-1'", {("corrupt", 1)}),
    ],
)
def test_fault_planted_in_a_created_table_is_reported(
    created: Stage, plant: str, named: set[tuple[str, int | None]]
) -> None:
    created.execute(plant)
    assert created.found() == named


def test_a_far_date_is_named_and_the_audit_goes_on(created: Stage) -> None:
    created.execute('ALTER TABLE public."t%" ALTER at TYPE text')
    routes = Routes("onramp", event_routes=(EventRoute(created.name, "onramp", "public", "t%"),))
    far = b'{"n":1,"at":"9999-12-31T23:59:59-08:00"}'
    created.settle(envelope("e-4", created.name, far), routes=routes)
    created.execute('ALTER TABLE public."t%" ALTER at TYPE timestamptz USING at::timestamptz')
    report = created.audit()
    assert (report.findings, len(report.unchecked)) == ([], 1)
    assert "values of at that cannot be read are not compared: 1 " in report.unchecked[0]


def test_a_table_whose_only_field_is_called_payload_is_no_landing_table(stage: Stage) -> None:
    stage.execute(
        create_table("public", "boxed", columns_of({"properties": {"payload": {"type": "object"}}}))
    )
    routes = Routes("onramp", event_routes=(EventRoute(stage.name, "onramp", "public", "boxed"),))
    stage.settle(envelope("e-0", stage.name, b'{"payload":{"a":1}}'), routes=routes)
    assert stage.found() == set()
    stage.execute("UPDATE public.boxed SET payload = '{}'")
    assert stage.found() == {("corrupt", 0)}


def test_a_table_whose_key_is_another_than_the_id_is_checked_by_count(stage: Stage) -> None:
    """A repeat that it does not take is none that its id would show."""
    stage.execute(create_table("public", "own", columns_of(SCHEMA)))
    stage.execute("ALTER TABLE public.own DROP CONSTRAINT own_pkey, ADD PRIMARY KEY (n)")
    routes = Routes("onramp", event_routes=(EventRoute(stage.name, "onramp", "public", "own"),))
    stage.settle(event("e-0", stage.name, n=1), event("e-1", stage.name, n=1), routes=routes)
    report = stage.audit()
    assert not report.findings
    assert any("keeps no receipts" in said for said in report.unchecked)


@pytest.mark.parametrize("key", ["(n)", "(n, _id)", "((lower(_id)))", "(_id) WHERE n = 1"])
def test_a_table_with_a_key_beside_the_id_is_checked_by_count(stage: Stage, key: str) -> None:
    """What that key refuses counts as a repeat, and no row has its id."""
    stage.execute(create_table("public", "two", columns_of(SCHEMA)))
    stage.execute(f"CREATE UNIQUE INDEX ON public.two {key}")
    routes = Routes("onramp", event_routes=(EventRoute(stage.name, "onramp", "public", "two"),))
    stage.settle(event("e-0", stage.name, n=1), event("e-1", stage.name, n=1), routes=routes)
    report = stage.audit()
    assert not report.findings
    assert any("keeps no receipts" in said for said in report.unchecked)
