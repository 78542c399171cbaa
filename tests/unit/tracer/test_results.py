"""A tracer's result follows from its rows, its age and its database's state."""

import pytest

from services.tracer.results import Destination, Limits, Result, Tracer, Watch, evaluate, refuse

HERE = Destination("onramp", "events.onramp_probe")
LIMITS = Limits(late=30, lost=600)


def tracer(*, accepted: bool = True) -> Tracer:
    return Tracer("t", "single@gateway", 1000.0, {HERE: Watch()}, 1000.1 if accepted else None)


def result_at(sent: Tracer, seconds: float, rows: int = 0, *, down: bool = False) -> Result:
    unavailable = {"onramp"} if down else set()
    list(evaluate(sent, {HERE: rows}, unavailable, 1000.0 + seconds, LIMITS))
    return sent.watches[HERE].result


@pytest.mark.parametrize(
    ("seconds", "rows", "result"),
    [
        (1, 0, Result.IN_FLIGHT),
        (1, 1, Result.LANDED),
        (31, 0, Result.LATE),
        (31, 1, Result.LATE),
        (601, 0, Result.LOST),
        (1, 2, Result.DUPLICATE),
    ],
)
def test_a_result_follows_from_rows_and_age(seconds: float, rows: int, result: Result) -> None:
    assert result_at(tracer(), seconds, rows) is result


def test_a_tracer_of_a_database_that_is_down_waits_and_is_due_when_it_returns() -> None:
    sent = tracer()
    assert result_at(sent, 5, down=True) is Result.WAITING
    assert result_at(sent, 900, down=True) is Result.WAITING
    assert result_at(sent, 901) is Result.IN_FLIGHT
    assert result_at(sent, 905, rows=1) is Result.LANDED


def test_a_tracer_that_has_no_row_after_its_database_returned_is_lost() -> None:
    sent = tracer()
    result_at(sent, 900, down=True)
    assert result_at(sent, 931) is Result.LATE
    assert result_at(sent, 1501) is Result.LOST


def test_a_lost_tracer_that_arrives_is_late() -> None:
    sent = tracer()
    assert result_at(sent, 601) is Result.LOST
    assert result_at(sent, 700, rows=1) is Result.LATE


def test_a_landed_tracer_stays_landed_when_its_row_is_trimmed() -> None:
    sent = tracer()
    result_at(sent, 1, rows=1)
    assert result_at(sent, 700) is Result.LANDED


def test_a_second_row_makes_a_landed_tracer_a_duplicate() -> None:
    sent = tracer()
    result_at(sent, 1, rows=1)
    assert result_at(sent, 2, rows=2) is Result.DUPLICATE


def test_tracer_without_an_accepting_answer_counts_as_refused() -> None:
    sent = tracer(accepted=False)
    assert result_at(sent, 601) is Result.REFUSED


def test_a_refused_tracer_is_not_lost() -> None:
    sent = tracer(accepted=False)
    list(refuse(sent, "answered 503"))
    assert result_at(sent, 601) is Result.REFUSED
    assert sent.refusal == "answered 503"


def test_a_clock_that_goes_back_loses_nothing() -> None:
    assert result_at(tracer(), -3600) is Result.IN_FLIGHT
