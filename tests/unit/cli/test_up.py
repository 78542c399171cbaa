"""What `onramp up` prints: a password that somebody gave is not among it."""

import pytest

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
