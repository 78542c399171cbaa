"""Debezium's failures are shown with the remedy that fixes them."""

import pytest

from services.cdc.health.remedies import with_remedy


def told(reason: str) -> str:
    return with_remedy(reason, name="shop", dsn_env="ONRAMP_SOURCE_SHOP", max_bytes=16 << 20)


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ('FATAL: password authentication failed for user "…"', "set ONRAMP_SOURCE_SHOP_PASSWORD"),
        (
            "RecordTooLargeException: The message is 17826144 bytes when serialized",
            "larger than 16 MB with its metadata",
        ),
        ('java.lang.NumberFormatException: For input string: "…"', "onramp sources resync shop"),
    ],
)
def test_a_failure_names_its_remedy(reason: str, fix: str) -> None:
    assert fix in told(reason)
    assert told(reason).startswith(reason.rstrip("."))


def test_failure_without_a_remedy_is_shown_unchanged() -> None:
    assert told("it is broken.") == "it is broken."
