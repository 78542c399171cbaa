"""What `onramp up` prints: a password that somebody gave is not among it."""

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.cli.exits import Exit
from stack.postgres import without_password


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hunter2@db.example:5433/test",
        "host=db.example port=5433 user=me password=hunter2 dbname=test",
    ],
)
def test_a_given_password_is_not_shown(dsn: str) -> None:
    shown = without_password(dsn)
    assert "hunter2" not in shown
    assert set(shown.split()) == {"host=db.example", "port=5433", "user=me", "dbname=test"}


@pytest.mark.parametrize("options", [["--brokers", "2"], ["--brokers", "3", "--kafka", "kafka.example:9092"]])
def test_brokers_that_cannot_be_started_are_refused_before_anything_starts(options: list[str]) -> None:
    answer = CliRunner().invoke(app, ["up", *options])
    assert answer.exit_code == Exit.USAGE
    assert "--brokers" in answer.output
