"""Titles of groups: the cause in words, for any names that a sender has chosen."""

import pytest

from services.ops.parked.fingerprint import OTHERS, Cause, cause_of
from services.ops.parked.outcome_sentence import sentence
from services.ops.parked.title import title_of
from shared.errors import TABLE, TRANSFORM_BAD_OUTPUT, TRANSFORM_FAILED, Kind

CAUSE = Cause(
    "persist", "data_rejected", "22P02", "onramp.public.orders", "amount", None, "order_placed", "string"
)


@pytest.mark.parametrize(
    ("changed", "column_type", "title"),
    [
        ({}, "numeric(10,2)", "`amount` is not a number"),
        ({}, "integer", "`amount` is not a whole number"),
        ({}, "interval", "`amount` is not a duration"),
        ({}, "timestamp with time zone", "`amount` is not a date and time"),
        ({}, "date", "`amount` is not a date"),
        ({}, "uuid", "`amount` is not a UUID"),
        ({}, "public.mood", "`amount` is not a value of the type public.mood"),
        ({}, "numeric[]", "`amount` is not an array of the type numeric"),
        ({}, None, "`amount` is not a value of its column's type"),
        ({"column": None}, None, "A value is not a value of its column's type"),
        ({"sqlstate": "42804"}, "numeric", "`amount` is a string, and not a number"),
        ({"sqlstate": "22001"}, "varchar(3)", "`amount` is longer than its type varchar(3) allows"),
        ({"sqlstate": "23502"}, None, "`amount` is missing or null"),
        ({"sqlstate": "23514", "place": "positive"}, None, "The constraint `positive` is violated"),
        ({"sqlstate": "42703"}, None, "`amount` is a field without a column in `onramp.public.orders`"),
        ({"sqlstate": "42P01"}, None, "A function of `onramp.public.orders` uses a name that is absent"),
        ({"sqlstate": "42P01", "code": "unknown_table"}, None, "`onramp.public.orders` does not exist"),
        ({"sqlstate": "99999"}, None, "`onramp.public.orders` refuses the event's values"),
        ({"sqlstate": None, "code": "not_routed"}, None, "`order_placed` is no longer routed to "),
        ({"sqlstate": None, "code": "new"}, None, "Error new"),
        ({"column": "a\u202eb\x00{0}" + "c" * 99}, "date", "`a\ufffdb\ufffd{0}ccc"),
    ],
)
def test_a_title_is_the_cause_in_words(changed: dict[str, str], column_type: str | None, title: str) -> None:
    found = title_of(CAUSE._replace(**changed), column_type)
    assert found.startswith(title)
    assert len(found) < 200


def test_every_reason_of_our_own_has_a_title() -> None:
    for code, fault in TABLE.items():
        if fault.kind is Kind.PARKED:
            without = title_of(Cause(None, code, None, None, None, None, None, None))
            assert without
            assert without != f"Error {code}"
            assert "None" not in without
    assert title_of(OTHERS) == "Further causes"


def test_failures_of_a_function_are_grouped_by_exception_and_line() -> None:
    def cause(code: str, detail: str) -> Cause:
        reason = {"step": "transform", "code": code, "destination": "transform:delays", "detail": detail}
        return cause_of({**reason, "event_name": "flight_departed"}, b"{}")

    missing, other = (cause(TRANSFORM_FAILED.code, f"KeyError in transform, line {n}") for n in (3, 4))
    assert missing.fingerprint != other.fingerprint
    assert title_of(missing) == "The function raised `KeyError in transform, line 3`"
    assert "for transform:delays, raised KeyError in transform, line 3." in sentence(missing)
    outputs = {cause(TRANSFORM_BAD_OUTPUT.code, f"output {n} is too large").fingerprint for n in (1, 2)}
    assert len(outputs) == 1, "details of other errors differ from event to event"
