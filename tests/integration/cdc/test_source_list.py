"""`onramp sources list` prints each problem with reason and remedy, and has a matching exit code."""

import json
from contextlib import closing

import pytest
from typer.testing import CliRunner

from services.cdc.agent.metrics import AgentMetrics
from services.cdc.agent.reconcile import SourceReconciler
from services.cdc.agent.source_state import Shown, State
from services.cdc.agent.source_state_sql import StateStore
from services.cdc.agent.watch import Watch
from services.cdc.merge import state_sql
from services.cli.app import app
from services.cli.exits import Exit
from shared.registry.memory import MemoryRegistry
from shared.registry.sources import Source
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute
from tests.integration.cdc.merge_bench import NAME, Desk

run = CliRunner()


def report(store: StateStore, state: State = State.STREAMING, reason: str = "") -> None:
    assert store.watch()
    store.read()
    store.show(Shown(state=state, reason=reason))


def test_a_suspended_table_is_listed_under_its_source_with_its_reason_and_the_remedy(desk: Desk) -> None:
    desk.tell()
    with desk.store() as store:
        report(store)
        listed = run.invoke(app, ["sources", "list", "--dsn", desk.bench.dsn])
        assert (listed.exit_code, "suspended" in listed.stdout) == (Exit.OK, False), listed.output
        with desk.connected() as conn, conn:
            state_sql.hold(conn, NAME, "a value does not fit: exclude the column")
        listed = run.invoke(app, ["sources", "list", "--dsn", desk.bench.dsn])
        assert listed.exit_code == Exit.FAILED
        header, first, table, remedy = listed.stdout.splitlines()
        assert header.split() == ["SOURCE", "STATE", "TABLES", "WAL", "POLLED"]
        assert first.startswith("shop ")
        assert table.startswith("shop: table app.orders is suspended since 20")
        assert table.endswith(": a value does not fit: exclude the column")
        assert "`onramp sources resync shop`" in remedy
        (row,) = json.loads(run.invoke(app, ["sources", "list", "--dsn", desk.bench.dsn, "--json"]).stdout)
        assert [table["table"] for table in row["suspended"]] == ["app.orders"]


def test_a_source_that_was_never_reached_is_listed(desk: Desk) -> None:
    with desk.store() as store:
        store.show(Shown(state=State.UNREACHABLE, reason="cannot query the source: no connection"))
    listed = run.invoke(app, ["sources", "list", "--dsn", desk.bench.dsn])
    assert listed.exit_code == Exit.FAILED
    assert "no connection" in listed.stdout


def test_an_agent_that_no_longer_polls_is_named(desk: Desk) -> None:
    with desk.store() as store:
        report(store)
    ago = "UPDATE onramp_agent.sources SET polled_at = now() - interval '{} seconds'"
    for seconds, code in ((30, Exit.OK), (90, Exit.FAILED)):
        execute(desk.bench.dsn, ago.format(seconds))
        listed = run.invoke(app, ["sources", "list", "--dsn", desk.bench.dsn])
        assert listed.exit_code == code, listed.output
    assert "the agent's last report is older than 60 s: start python -m services.cdc.agent" in listed.stdout


def test_sources_that_no_agent_has_reported_are_named_with_their_variable(
    kafka: HasBootstrap, published: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = OwnRegistry(kafka.bootstrap)
    monkeypatch.setenv("ONRAMP_REGISTRY_TOPIC", registry.topic)
    options = ["sources", "list", "--dsn", published.dsn, "--kafka", kafka.bootstrap]
    listed = run.invoke(app, options)
    assert (listed.exit_code, "the registry names no sources" in listed.stderr) == (Exit.OK, True)
    shop = {"dsn_env": "ONRAMP_SOURCE_SHOP", "schemas": ["app"], "publish": "shop"}
    registry.put({"sources": {"shop": shop}})
    listed = run.invoke(app, options)
    assert listed.exit_code == Exit.FAILED
    assert "no agent has reported the source shop yet" in listed.stderr
    assert "ONRAMP_SOURCE_SHOP" in listed.stderr
    with closing(StateStore("other", "ONRAMP_SOURCE_OTHER", published.dsn)) as store:
        report(store)
    listed = run.invoke(app, options)  # one that is reported and flows hides none that is not
    assert (listed.exit_code, listed.stdout.splitlines()[1].split()[0]) == (Exit.FAILED, "other")


def test_a_source_without_its_setting_is_listed_with_the_name_of_that(
    published: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONRAMP_SOURCE_NOBODY", raising=False)
    shop = {"dsn_env": "ONRAMP_SOURCE_NOBODY", "schemas": ["app"], "publish": "shop"}
    registry = MemoryRegistry({"sources": {"shop": shop}})

    def never(name: str, _source: Source, _dsn: str) -> SourceReconciler:
        raise AssertionError(f"{name} is polled")

    Watch(registry, {"onramp": published.dsn}, never, AgentMetrics(), poll_seconds=1).follow()
    listed = run.invoke(app, ["sources", "list", "--dsn", published.dsn])
    assert listed.exit_code == Exit.FAILED
    assert listed.stdout.splitlines()[1].startswith("shop    unreachable")
    assert "ONRAMP_SOURCE_NOBODY is not set" in listed.stdout
