"""Whose fault a SQLSTATE is: an outage never poses as bad data, nor bad data as an outage."""

import psycopg2
import pytest
from psycopg2 import errorcodes

from services.writer.postgres.error_faults import translate
from services.writer.postgres.sqlstates import Verdict, is_of_one_table, verdict
from shared.errors import DATABASE_UNAVAILABLE, NO_PERMISSION, InfrastructureError, UserError
from tests.fixtures.writer import database_of

WAITING = ["08000", "08006", "28P01", "53100", "53300", "57P01", "57P03", "57014", "58030"]
WAITING += ["55P03", "25006", "3D000", "2200H"]
PARKED = ["0A000", "22001", "22003", "22P02", "22P05", "23502", "23503", "23505", "23514"]
PARKED += ["42P01", "42703", "42501", "428C9", "44000", "54000", "54011", "P0001"]


@pytest.mark.parametrize("state", WAITING)
def test_the_infrastructures_fault_waits(state: str) -> None:
    assert verdict(state) is Verdict.WAIT


@pytest.mark.parametrize("state", PARKED)
def test_the_events_fault_is_parked(state: str) -> None:
    assert verdict(state) is Verdict.PARK


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_lost_race_is_run_again(state: str) -> None:
    assert verdict(state) is Verdict.RETRY


@pytest.mark.parametrize("state", [None, "XX000", "99999", "P0002", "55000", "25001", "40002"])
def test_the_unknown_waits_for_nothing_may_be_lost_on_a_guess(state: str | None) -> None:
    assert verdict(state) is Verdict.WAIT


def test_every_state_becomes_the_error_that_its_verdict_names() -> None:
    known = {v for k, v in vars(errorcodes).items() if k.isupper() and len(v) == 5}
    assert len(known) > 200
    for state in known:
        error = translate(_error(state), database_of("dbname=nowhere"))
        assert isinstance(error, UserError) == (verdict(state) is Verdict.PARK)
        assert state in error.detail


def test_missing_permission_is_named_as_such() -> None:
    assert translate(_error("42501"), database_of("dbname=nowhere")).fault is NO_PERMISSION


def test_no_answer_at_all_is_an_outage() -> None:
    error = translate(_error(None), database_of("dbname=nowhere"))
    assert isinstance(error, InfrastructureError)
    assert error.fault is DATABASE_UNAVAILABLE


@pytest.mark.parametrize("state", WAITING)
def test_table_waits_alone_while_its_session_is_open(state: str) -> None:
    assert is_of_one_table(state)


@pytest.mark.parametrize("state", ["53000", "53200", "23505", None])
def test_server_without_memory_and_lost_session_are_no_tables_fault(state: str | None) -> None:
    assert not is_of_one_table(state)


@pytest.mark.parametrize("state", ["23505", "22P02", "08006", None])
def test_the_servers_own_words_which_may_hold_values_are_not_passed_on(state: str | None) -> None:
    assert "secret" not in str(translate(_error(state), database_of("dbname=nowhere")))


def _error(state: str | None) -> psycopg2.Error:
    # psycopg2 lets nobody set the pgcode of its own errors.
    return type("Failed", (psycopg2.Error,), {"pgcode": state})("Key (a)=(secret) already exists.")
