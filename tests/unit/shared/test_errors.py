"""The error table: complete, unambiguous, and its errors survive a pickle."""

import logging
import pickle
import re
from collections.abc import Iterator

import pytest

from shared import errors
from shared.errors import TABLE, Fault, InfrastructureError, Kind, OnrampError, UserError

FAULTS = {name: value for name, value in vars(errors).items() if isinstance(value, Fault)}


def test_every_code_is_used_once() -> None:
    codes = [fault.code for fault in FAULTS.values()]
    assert len(codes) == len(set(codes)) == len(TABLE)


def test_every_code_is_its_constants_name() -> None:
    assert [name for name, fault in FAULTS.items() if fault.code != name.lower()] == []


def wording_faults(fault: Fault) -> Iterator[str]:
    if not re.fullmatch(r"[a-z]+(_[a-z]+)*", fault.code):
        yield f"{fault.code}: a code is words of lower case, joined by underscores"
    if not fault.title.endswith(".") or not fault.fix.endswith("."):
        yield f"{fault.code}: title and fix are sentences that end with a full stop"
    if "\n" in fault.title + fault.fix:
        yield f"{fault.code}: title and fix are one line each"


def kind_faults(fault: Fault) -> Iterator[str]:
    match fault.kind:
        case Kind.REJECTED:
            # 501 is what RFC 9112 (6.1) asks for an unknown transfer coding.
            agrees = fault.status is not None and (400 <= fault.status < 500 or fault.status == 501)
            retry, level = False, logging.WARNING
        case Kind.PARKED:
            agrees = fault.status is None
            retry, level = False, logging.WARNING
        case Kind.WAITING:
            agrees = fault.status is None or fault.status >= 500 or fault.status == 429
            retry, level = True, logging.ERROR
    if not agrees:
        yield f"{fault.code}: the status {fault.status} does not fit {fault.kind}"
    if (fault.retry, fault.level) != (retry, level):
        yield f"{fault.code}: {fault.kind} means retry={retry} and level={level}"


def test_every_fault_says_what_and_how_to_fix_it() -> None:
    assert [offender for fault in TABLE.values() for offender in wording_faults(fault)] == []


def test_kind_status_level_and_retry_agree() -> None:
    assert [offender for fault in TABLE.values() for offender in kind_faults(fault)] == []


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TABLE["new"] = errors.BAD_JSON


@pytest.mark.parametrize("kind", [UserError, InfrastructureError, OnrampError])
def test_an_error_survives_the_way_from_a_spark_worker(kind: type[OnrampError]) -> None:
    error = pickle.loads(pickle.dumps(kind(errors.BAD_JSON, "what happened", "/payload")))  # noqa: S301
    assert type(error) is kind
    assert (error.fault, error.detail, error.pointer) == (errors.BAD_JSON, "what happened", "/payload")
    assert str(error) == "bad_json: what happened"
