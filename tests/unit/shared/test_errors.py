"""The error table: complete, unambiguous, and what is raised from it survives a pickle."""

import logging
import pickle
import re

import pytest

from shared import errors
from shared.errors import TABLE, Fault, InfrastructureError, Kind, OnrampError, UserError

FAULTS = {name: value for name, value in vars(errors).items() if isinstance(value, Fault)}


def test_every_code_is_used_once() -> None:
    codes = [fault.code for fault in FAULTS.values()]
    assert len(codes) == len(set(codes)) == len(TABLE)


@pytest.mark.parametrize("name", FAULTS)
def test_the_code_is_the_constants_name(name: str) -> None:
    assert FAULTS[name].code == name.lower()


@pytest.mark.parametrize("fault", TABLE.values(), ids=list(TABLE))
def test_every_fault_says_what_and_how_to_fix_it(fault: Fault) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", fault.code)
    assert fault.title.endswith(".")
    assert fault.fix.endswith(".")
    assert "\n" not in fault.title + fault.fix


@pytest.mark.parametrize("fault", TABLE.values(), ids=list(TABLE))
def test_kind_status_level_and_retry_agree(fault: Fault) -> None:
    match fault.kind:
        case Kind.REJECTED:
            assert fault.status is not None
            assert 400 <= fault.status < 500
            assert not fault.retry
            assert fault.level == logging.WARNING
        case Kind.PARKED:
            assert fault.status is None
            assert not fault.retry
            assert fault.level == logging.WARNING
        case Kind.WAITING:
            assert fault.status is None or fault.status >= 500 or fault.status == 429
            assert fault.retry
            assert fault.level == logging.ERROR


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TABLE["new"] = errors.BAD_JSON


@pytest.mark.parametrize("kind", [UserError, InfrastructureError, OnrampError])
def test_an_error_survives_the_way_from_a_spark_worker(kind: type[OnrampError]) -> None:
    error = pickle.loads(pickle.dumps(kind(errors.BAD_JSON, "what happened", "/payload")))  # noqa: S301
    assert type(error) is kind
    assert (error.fault, error.detail, error.pointer) == (errors.BAD_JSON, "what happened", "/payload")
    assert str(error) == "bad_json: what happened"
