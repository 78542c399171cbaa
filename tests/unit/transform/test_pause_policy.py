"""The rule that pauses a transform."""

from services.transform.driver.pause_policy import Counts, PausePolicy


def test_half_of_the_window_does_not_pause_and_more_does() -> None:
    policy = PausePolicy()
    assert policy.add(Counts(500, 0, 0), 0.0) is None
    assert policy.add(Counts(500, 500, 0), 1.0) is None
    assert policy.add(Counts(1, 1, 0), 2.0) == "501 of the last 1001 events were parked"


def test_few_events_never_pause() -> None:
    assert PausePolicy().add(Counts(500, 500, 0), 0.0) is None


def test_outcomes_before_the_window_do_not_count() -> None:
    policy = PausePolicy()
    policy.add(Counts(400, 400, 0), 0.0)
    policy.add(Counts(1000, 0, 0), 1.0)
    assert policy.add(Counts(200, 200, 0), 2.0) is None


def test_five_deaths_within_a_minute_pause_and_six_minutes_do_not() -> None:
    policy = PausePolicy()
    assert [policy.add(Counts(1, 1, 1), 20.0 * n) for n in range(10)] == [None] * 10
    reasons = [policy.add(Counts(1, 1, 1), 300.0 + n) for n in range(5)]
    assert reasons[-1] == "the function's process ended 5 times within a minute"
