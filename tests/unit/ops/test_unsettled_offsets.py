"""The time at which Kafka deletes unsettled offsets, by the topic's settings; unknown times are omitted."""

import time

import pytest

from services.ops.operate.unsettled_offsets import Unsettled, judged

_HOUR = 3_600_000


def _judged(oldest: int | None = None, **settings: int) -> Unsettled:
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return judged("events.a", 3, oldest, named)


def test_a_topic_that_keeps_everything_deletes_nothing() -> None:
    assert _judged(0, retention_ms=-1).hours is None
    assert _judged(0).hours is None


def test_expired_record_has_0_hours_left_and_a_record_of_unknown_age_has_no_hours() -> None:
    assert _judged(0, retention_ms=_HOUR).hours == 0.0
    assert _judged(None, retention_ms=_HOUR).hours is None


def test_the_hours_are_those_that_are_left_of_the_retention() -> None:
    hours = _judged(round(time.time() * 1000) - 2 * _HOUR, retention_ms=100 * _HOUR).hours
    assert hours is not None
    assert 90 < hours < 98.1


def test_retention_by_size_is_reported_in_addition_to_the_hours() -> None:
    assert [_judged(0, retention_bytes=n).by_size for n in (-1, 1_000)] == [False, True]


@pytest.mark.parametrize("timestamp", [1 << 62, -(1 << 62), 1_700_000_000_000_000])
def test_record_with_an_impossible_timestamp_is_reported_without_its_time(timestamp: int) -> None:
    shown = _judged(timestamp, retention_ms=_HOUR).as_dict()
    assert (shown["offsets"], shown["oldest"]) == (3, None)
