"""Audits as jobs: one at a time, reports stored and shown, and repeated after a kill."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from services.admin.audits.runner import AuditRunner
from services.admin.store.audits_sql import AuditSession
from tests.fixtures.delta_tables import small_files
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import event, eventually, execute, rows
from tests.integration.admin.admin_service import refused
from tests.integration.admin.conftest import Stage, database_beside
from tests.integration.admin.inside import Inside, inside
from tests.integration.admin.job_bench import running


@pytest.fixture
def service(stage: Stage, templates: Templates) -> Iterator[Inside]:
    stage.settle(event("e-1", stage.name), event("e-2", stage.name))
    with (
        database_beside(templates.server, templates.control) as dsn,
        inside(dsn, {"onramp": stage.dsn}, stage.bootstrap) as found,
    ):
        yield found


def _runner(service: Inside, stage: Stage) -> AuditRunner:
    return AuditRunner(service.dsn, {"onramp": stage.dsn}, stage.bootstrap)


def test_second_audit_is_refused_during_a_run_and_a_repeated_key_starts_no_other_audit(
    service: Inside,
) -> None:
    def start(name: str, key: str) -> tuple[int, int]:
        asked = {"reason": "the month ends"}
        answer = service.of(name).ask("POST", "/v1/audits", json=asked, headers={"idempotency-key": key})
        return answer.status_code, answer.json().get("id", 0)

    assert start("vera", "a")[0] == start("olga", "a")[0] == 403
    status, number = start("otto", "a")
    assert status == 202
    assert start("otto", "a") == (202, number)
    refused(service.post("/v1/audits"), 409, "audit_runs")
    cancelled = service.of("otto").ask("POST", f"/v1/audits/{number}/cancel", json={})
    assert cancelled.json()["state"] == "cancelling"
    assert [act for act in service.acts() if act[1] == "start audit"] == [
        ("otto", "start audit", f"audit {number}")
    ]


@pytest.mark.parametrize("other", [{"reason": "another"}, {"deep": True}])
def test_a_key_of_an_audit_is_for_one_request_and_for_a_day(
    service: Inside, other: dict[str, object]
) -> None:
    def start(**more: object) -> httpx2.Response:
        asked = {"reason": "the month ends"} | more
        return service.of("otto").ask("POST", "/v1/audits", json=asked, headers={"idempotency-key": "a"})

    first = start().json()["id"]
    refused(start(**other), 422, "idempotency_key_reused")
    execute(
        service.dsn, "UPDATE onramp_admin.audits SET state = 'done', started_at = now() - interval '25 h'"
    )
    assert start(**other).json()["id"] > first


def test_a_report_is_stored_and_can_be_printed(
    service: Inside, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_files(str(tmp_path / "flights"), 2)
    monkeypatch.setenv("ONRAMP_LAKE_URL", str(tmp_path))
    browser = service.of("otto").browser()
    page = browser.see("/reconciliation")
    assert "No audit has run here yet" in page
    begun = browser.send(page, "/reconciliation", reason="the month ends", receipts="")
    assert begun.status_code == 303
    number = int(begun.headers["location"].rsplit("/", 1)[1])
    with running(_runner(service, stage)):
        eventually(lambda: service.get(f"/v1/audits/{number}")["state"] == "done", 120)
    found = service.of("vera").get(f"/v1/audits/{number}")
    assert found["done"] == found["total"] > 0
    report = found["report"]
    [line] = [line for line in report["partitions"] if line["topic"] == stage.partition.topic]
    assert (line["read"], line["outcomes"]) == (2, {"landed": 2})
    assert {line["table"] for line in report["lake"]} == {"flights"}
    shown = service.of("vera").browser().see(f"/reconciliation/{number}")
    assert "Totals of the lake" in shown
    assert stage.partition.topic in shown
    assert "Start an audit" not in shown
    assert service.of("olga").browser().client.get("/ui/reconciliation").status_code == 403


def test_an_audit_that_was_killed_is_repeated_and_one_that_fails_says_why(
    service: Inside, stage: Stage
) -> None:
    number = service.post("/v1/audits").json()["id"]
    session = AuditSession.open(service.dsn)
    assert session is not None
    assert session.progress(number, 1, 9)
    assert AuditSession.open(service.dsn) is None  # another replica waits
    session.close()  # as a kill does
    away = Stage("127.0.0.1:1", stage.dsn)
    with running(_runner(service, away)):
        eventually(lambda: service.get(f"/v1/audits/{number}")["state"] == "failed", 120)
    assert "Kafka at 127.0.0.1:1" in service.get(f"/v1/audits/{number}")["error"]
    assert rows(service.dsn, "SELECT count(*) FROM onramp_admin.audits") == [(1,)]
