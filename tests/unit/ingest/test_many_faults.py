"""Reporting many faults is bounded: compared names, searched faults and problems shown in full."""

import difflib
import threading
from typing import Any

import pytest

from services.ingest import accept
from services.ingest.check.check import Checker
from shared.contracts import faults as faults_of_payloads
from tests.fixtures.ingest import body, envelope, one
from tests.unit.ingest.conftest import MakeGateway

pytestmark = pytest.mark.anyio

FIELDS = [f"the_field_{n}" for n in range(20)]
SCHEMA = {"required": FIELDS, "additionalProperties": False, "properties": {name: {} for name in FIELDS}}
REGISTRY = {"event_types": {"order_placed": {"schema": SCHEMA}}}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    near = difflib.get_close_matches

    def count(name: str, names: Any, n: int) -> list[str]:
        seen.append(len(names))
        return near(name, names, n)

    monkeypatch.setattr(difflib, "get_close_matches", count)
    return seen


async def faults(make_gateway: MakeGateway, fields: int) -> list[str]:
    answer = await make_gateway(REGISTRY).post(
        body(envelope(**{f"the_field_{n}_": n for n in range(fields)}))
    )
    assert answer.json()["type"] == "/errors/schema_mismatch"
    return [each["detail"] for each in answer.json()["errors"]]


async def test_a_few_fields_are_compared(make_gateway: MakeGateway, compared: list[int]) -> None:
    told = await faults(make_gateway, 15)

    assert len(told) == 21
    assert any("and 5 more" in each for each in told)
    assert any("the field the_field_0 is missing; did you mean the_field_" in each for each in told)
    assert max(compared) == 20


async def test_many_fields_are_not(make_gateway: MakeGateway, compared: list[int]) -> None:
    told = await faults(make_gateway, 500)

    assert len(told) == 21
    assert max(compared) == 20  # the registry's own


async def test_large_event_reports_only_its_first_fault(make_gateway: MakeGateway) -> None:
    assert len(await faults(make_gateway, 2000)) == 1


async def test_batch_reports_about_a_hundred_faults_in_full_and_the_rest_by_code(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = seen(monkeypatch, faults_of_payloads, "_errors")
    gateway = make_gateway(REGISTRY)
    answer = await gateway.post(body([envelope(f"id-{n}", x=1) for n in range(1000)]))
    errors = [each["error"] for each in answer.json()["results"]]

    assert len(looked) == 5
    assert sum(len(each.get("errors", ())) for each in errors) == 5 * 21
    assert ["fix" in each for each in errors] == [True] * 5 + [False] * 995
    assert {(e["type"], e["status"], e["accepted"], e["step"]) for e in errors} == {
        ("/errors/schema_mismatch", 422, False, "check")
    }


async def test_heavy_bodies_are_judged_elsewhere(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded, judged = seen(monkeypatch, accept, "decode"), seen(monkeypatch, Checker, "check")
    gateway = make_gateway()
    here = threading.get_ident()
    for heavy in (one(text="x" * 200_000), b"[" + b"1," * 6_000 + b"1]", b"\n" * 6_000 + one()):
        await gateway.post(heavy)
    assert here not in decoded + judged

    await gateway.post(one())
    assert (decoded[3:], judged[3:]) == ([here], [here])


def seen(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    """The threads of every call."""
    threads: list[int] = []
    real = getattr(owner, name)

    def noted(*given: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        return real(*given, **named)

    monkeypatch.setattr(owner, name, noted)
    return threads


async def test_thousand_bad_items_report_a_hundred_in_full_and_the_rest_by_code(
    make_gateway: MakeGateway,
) -> None:
    answer = await make_gateway().post(b"[" + b"{}," * 999 + b"{}]")

    assert sum("detail" in each["error"] for each in answer.json()["results"]) == 100
    assert len(answer.content) < 200 * 1000
