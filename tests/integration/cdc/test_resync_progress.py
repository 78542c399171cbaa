"""A resync is complete when the source streams again and all landed changes are merged."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from services.cdc.agent.source_state import Shown, State
from services.cdc.agent.source_state_sql import StateStore
from services.cdc.setup.source_requests_sql import ask_for_resync, progress
from services.cli.app import app
from services.cli.exits import Exit
from tests.fixtures.changes import Stream
from tests.fixtures.writer import execute
from tests.integration.cdc.merge_bench import NAME, Desk


@pytest.fixture
def store(desk: Desk) -> Iterator[StateStore]:
    """A source with a table, as its agent reports it."""
    desk.tell()
    with desk.store() as store:
        assert store.watch()
        store.read()
        store.save_streams(streams=True, ends={})
        store.show(Shown(state=State.STREAMING))
        yield store


def is_over(desk: Desk) -> bool:
    found = progress(desk.bench.dsn, NAME.source)
    assert found is not None
    return found.is_over


def test_it_is_over_when_the_first_snapshot_is_merged(desk: Desk, store: StateStore) -> None:
    assert is_over(desk)
    assert ask_for_resync(desk.bench.dsn, NAME.source)
    assert not is_over(desk)
    store.heal({NAME[1:]: desk.end()})
    assert not is_over(desk)  # the state is of before: the snapshot has not begun
    store.save_streams(streams=True, ends={})
    stream = Stream()
    stream.insert(id=1, note="one")
    desk.land(stream)
    found = progress(desk.bench.dsn, NAME.source)
    assert found is not None
    assert (found.is_over, found.behind, found.landed) == (False, 1, 1)
    desk.merge()
    assert is_over(desk)
    assert progress(desk.bench.dsn, "other") is None


def test_the_verb_does_not_wait_for_an_agent_that_no_longer_polls(desk: Desk, store: StateStore) -> None:
    del store  # whose agent has ended
    execute(desk.bench.dsn, "UPDATE onramp_agent.sources SET polled_at = now() - interval '90 seconds'")
    options = ["sources", "resync", NAME.source, "--dsn", desk.bench.dsn]
    result = CliRunner().invoke(app, options)
    assert (result.exit_code, "its agent does not poll" in result.stderr) == (Exit.FAILED, True)
    result = CliRunner().invoke(app, [*options, "--no-wait"])
    assert (result.exit_code, result.stdout) == (Exit.OK, "shop: a resync is requested\n")
