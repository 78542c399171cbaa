"""Failures that Kafka Connect reports are shown without the values of a row."""

import pytest

from services.cdc.agent.connect_api import cause

TRACE = """org.apache.kafka.connect.errors.ConnectException: An exception occurred.
	at io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:67)
Caused by: {}
	at java.base/java.lang.Integer.parseInt(Integer.java:668)
"""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            'java.lang.NumberFormatException: For input string: "Endeavor "Air" Inc."',
            'java.lang.NumberFormatException: For input string: "…"',
        ),
        (
            'org.postgresql.util.PSQLException: ERROR: publication "onramp_shop" does not exist',
            'org.postgresql.util.PSQLException: ERROR: publication "onramp_shop" does not exist',
        ),
    ],
)
def test_the_last_cause_is_shown_without_values(said: str, shown: str) -> None:
    assert cause(TRACE.format(said)) == shown
