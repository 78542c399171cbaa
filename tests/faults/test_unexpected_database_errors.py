"""An unexpected error while a database returns: only that database counts as unreachable."""

import threading
from typing import Any

import pytest

from services.writer.databases import database_states
from shared.logs import JsonFormatter
from tests.fixtures.second_database import Other
from tests.fixtures.two_topics import Two
from tests.fixtures.writer import eventually

SECRET = "a-secret"


class BugError(Exception):
    """An unexpected error."""


def test_unexpected_error_while_a_database_returns_keeps_only_that_database_unreachable(
    two: Two, other: Other, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, armed = database_states.migrate, threading.Event()

    def migrate(database: Any) -> None:
        if armed.is_set() and database.name == other.name:
            raise BugError(SECRET)
        real(database)

    monkeypatch.setattr(database_states, "migrate", migrate)
    armed.set()
    writer = two.writer(other)
    epoch = writer.job._epoch
    two.send("first")
    why = eventually(lambda: writer.reasons.get(other.name, ""))
    assert "BugError" in why
    eventually(lambda: two.landed() == {"first"})
    two.the_other_lands()
    assert writer.states[other.name] == "out"
    assert SECRET not in why + "".join(JsonFormatter("writer").format(r) for r in caplog.records)
    armed.clear()  # a release that mends it
    eventually(lambda: two.landed(other.dsn) == {"first"})
    assert writer.job._epoch == epoch, "the loop was never begun again"
    two.scene.audited(other)
