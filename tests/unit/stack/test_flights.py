"""The demo's flights: complete, with unique ids, correct times and nulls."""

from collections import Counter

import pytest

from stack import flights


@pytest.mark.parametrize("total", [20_000, pytest.param(flights.TOTAL, marks=pytest.mark.full)])
def test_every_flight_has_an_id_of_its_own_and_an_offset_of_new_york(total: int) -> None:
    ids: set[str] = set()
    offsets: Counter[str] = Counter()
    count = 0
    for envelope in flights.envelopes(total):
        count += 1
        ids.add(envelope["metadata"]["id"])
        offsets[envelope["metadata"]["timestamp"][-6:]] += 1
    assert count == len(ids) == total
    assert set(offsets) == ({"-05:00", "-04:00"} if total == flights.TOTAL else {"-05:00"})


def test_the_first_flight_is_the_one_in_the_file() -> None:
    [envelope] = flights.envelopes(1)
    assert envelope == {
        "metadata": {
            "id": "flight-2013-01-01-UA-1545-EWR-0515",
            "timestamp": "2013-01-01T05:15:00-05:00",
            "version": "1",
        },
        "event_name": "flight_departed",
        "payload": {
            "year": 2013,
            "month": 1,
            "day": 1,
            "dep_time": 517,
            "sched_dep_time": 515,
            "dep_delay": 2,
            "arr_time": 830,
            "sched_arr_time": 819,
            "arr_delay": 11,
            "carrier": "UA",
            "flight": 1545,
            "tailnum": "N14228",
            "origin": "EWR",
            "dest": "IAH",
            "air_time": 227,
            "distance": 1400,
            "hour": 5,
            "minute": 15,
            "time_hour": "2013-01-01T10:00:00Z",
        },
    }


def test_missing_value_in_the_file_is_null_in_the_payload() -> None:
    cancelled = next(each for each in flights.envelopes() if each["payload"]["dep_time"] is None)
    assert cancelled["payload"]["dep_delay"] is None
    assert cancelled["payload"]["sched_dep_time"] is not None


def test_carriers_have_names() -> None:
    carriers = {each["payload"]["carrier"] for each in flights.envelopes(5000)}
    assert carriers <= set(flights.airlines())
