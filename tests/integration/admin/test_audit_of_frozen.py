"""An audit ends although a database freezes meanwhile: the report names that database and has the others."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ops import audited_database_sql
from services.ops.audited_database_sql import UnreachableDatabaseError
from shared.errors import InfrastructureError
from tests.fixtures.fix_postgres import Database
from tests.fixtures.silent_servers import FreezingProxy
from tests.integration.admin.conftest import Stage
from tests.integration.admin.job_bench import Desk

Freezing = Callable[..., FreezingProxy]
#: What the audit sends when the proxy stops: the first read, counts of rows, and their receipts.
MOMENTS = {"at its start": b"onramp.ledger", "while it counts": b"count(*) FROM", "while it reads": b"FETCH"}


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audited_database_sql, "PATIENCE_SECONDS", 0.5)


@pytest.fixture
def freezing() -> Iterator[Freezing]:
    proxies: list[FreezingProxy] = []

    def start(dsn: str, text: bytes) -> FreezingProxy:
        proxies.append(FreezingProxy(dsn, text))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()


def reasons(unchecked: list[str]) -> list[str]:
    return [why for why in unchecked if "does not answer" in why]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", MOMENTS.values(), ids=list(MOMENTS))
def test_the_default_database_freezes_and_the_other_is_checked(
    settled: Stage, migrated: Database, freezing: Freezing, text: bytes
) -> None:
    proxy = freezing(settled.dsn, text)
    where = replace(settled, dsn=proxy.dsn).arguments
    others = {"ONRAMP_WRITER_DATABASES": json.dumps({"other": migrated.dsn})}
    how = ["--topics", settled.partition.topic, "--deep", "--json"]
    shown = CliRunner().invoke(app, ["audit", *where, *how], env=others)

    assert proxy.is_frozen.is_set()
    assert shown.exit_code == 4, shown.output
    report = json.loads(shown.output)
    assert (report["findings"], report["balanced"]) == ([], False)
    # Without --control the default database is the control database too.
    assert set(report["unreachable"]) == {"onramp", "the control database"}
    assert any("database onramp does not answer" in why for why in reasons(report["unchecked"]))


@pytest.mark.timeout(120)
def test_another_database_freezes_and_the_default_one_is_checked(
    settled: Stage, migrated: Database, freezing: Freezing
) -> None:
    proxy = freezing(migrated.dsn, b"onramp.totals")
    report = settled.audit(other=proxy.dsn)
    assert (report.findings, report.unreachable, report.receipts) == ([], ["other"], 10)
    (line,) = report.lines
    assert line.read == line.accounted == 9


@pytest.mark.timeout(120)
def test_the_control_database_freezes_and_the_others_are_checked(desk: Desk, freezing: Freezing) -> None:
    proxy = freezing(desk.dsn, b"onramp_admin.events")
    report = desk.stage.audit(control=proxy.dsn)
    assert proxy.is_frozen.is_set()
    assert (report.findings, report.unreachable, report.stored) == ([], ["the control database"], None)
    assert reasons(report.unchecked)


@pytest.mark.timeout(120)
def test_without_a_database_that_answers_the_audit_fails_with_a_name(
    settled: Stage, freezing: Freezing
) -> None:
    frozen = replace(settled, dsn=freezing(settled.dsn, b"onramp.totals").dsn)
    with pytest.raises(UnreachableDatabaseError, match="database onramp does not answer"):
        frozen.audit()


def test_a_failed_statement_is_attributed_to_its_own_database(settled: Stage, migrated: Database) -> None:
    """The first of two databases fails, while the second one is open as well."""
    settled.execute("CREATE TABLE IF NOT EXISTS onramp.table_settings (source text)")
    settled.execute("ALTER TABLE onramp.table_settings RENAME source TO another")
    with pytest.raises(InfrastructureError, match="database onramp cannot be read"):
        settled.audit(other=migrated.dsn)
