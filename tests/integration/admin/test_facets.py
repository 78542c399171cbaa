"""Facets: counted once, in the transaction that stores the events; shown by API and command line."""

import orjson
import pytest
from typer.testing import CliRunner

from services.admin.api import views
from services.admin.api.operators import Operators
from services.admin.store import ingester_sql, read_sql
from services.admin.store.control_sql import transaction
from services.cli.app import app
from shared.registry.memory import MemoryRegistry
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import envelope, execute, rows
from tests.integration.admin.admin_service import Admin
from tests.integration.admin.conftest import Stage
from tests.integration.admin.parked_samples import keeping, parked

SALE = {"pointer": "/payload/total", "event_name": "sale"}


def _sale(total: str) -> bytes:
    return orjson.dumps({"event_name": "sale", "payload": {"total": total}})


def _counts(dsn: str) -> list[dict[str, object]]:
    return [
        {n: values for n, (values, _) in of.items()}
        for (of,) in rows(dsn, "SELECT counts FROM onramp_admin.facets ORDER BY group_id")
    ]


def test_each_event_is_counted_once_whatever_is_read_again(templates: Templates) -> None:
    with keeping(templates) as (dsn, ingester):
        events = [parked(n, _sale("9,99"), version=f"{n % 2}", **SALE) for n in range(10)]
        ingester.keep(events[:6], {})
        ingester.keep(events[:6], {})
        ingester.keep(events[3:], {})
        assert _counts(dsn) == [
            {"version": [["0", 5], ["1", 5]], "shape": [["9,99", 10]], "hour": [["1970-01-01T00:00Z", 10]]}
        ]


def test_event_whose_transaction_fails_is_not_counted_in_facets(templates: Templates) -> None:
    with keeping(templates) as (dsn, ingester):
        execute(dsn, "ALTER TABLE onramp_admin.consumed ADD CHECK (next_offset < 5)")
        with pytest.raises(Exception, match="SQLSTATE 23514"):
            ingester.keep([parked(1)], {ingester_sql.Source("t", 0): 9})
        assert _counts(dsn) == []


def test_others_have_no_shapes_for_they_are_of_many_places(
    templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingester_sql, "MAX_GROUPS", 1)
    with keeping(templates) as (dsn, ingester):
        ingester.keep([parked(n, _sale("9,99"), **SALE | {"code": f"c_{n}"}) for n in range(3)], {})
        assert [sorted(counts) for counts in _counts(dsn)] == [
            ["hour", "shape", "version"],
            ["hour", "version"],
        ]


def test_facets_of_a_type_with_personal_fields_omit_the_shape(templates: Templates) -> None:
    registry = MemoryRegistry({"event_types": {"sale": {"personal": ["/total"]}, "gift": {}}})
    personal = Operators(registry, keyless=True).personal
    with keeping(templates) as (dsn, ingester):
        ingester.keep(
            [parked(1, _sale("9,99"), **SALE), parked(2, _sale("x"), **SALE | {"event_name": "gift"})], {}
        )
        with transaction(dsn) as conn:
            found = {g.cause.event_name: g for g in read_sql.groups(conn, {}, None, 5)}
            shown = {
                name: views.facets(read_sql.facets(conn, [g.id])[g.id], g.cause, personal)
                for name, g in found.items()
            }
    assert {name: sorted(facets) for name, facets in shown.items()} == {
        "sale": ["hour", "version"],
        "gift": ["hour", "shape", "version"],
    }


def test_a_group_is_shown_with_what_differs_among_its_events(stage: Stage, admin: Admin) -> None:
    bad = b'{"secret":"hunter2 \\u0000"}'
    stage.settle(*(envelope(f"e-{n}", stage.name, bad) for n in range(3)))
    [group] = admin.kept(stage.name, 3)
    facets = admin.get(f"/v1/groups/{group['id']}").json()["facets"]
    assert facets["version"] == {"values": [{"value": "1", "events": 3}], "others": 0}
    assert [value["events"] for value in facets["hour"]["values"]] == [3]
    said = (
        CliRunner().invoke(app, ["errors", "groups", str(group["id"]), "--admin", admin.service.url]).stdout
    )
    assert "version: 1 (3)" in said.splitlines()
