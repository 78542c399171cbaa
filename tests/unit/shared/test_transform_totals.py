"""Totals are read as they were written, and records of other clients are skipped."""

import orjson
import pytest

from services.transform.driver.kafka_epochs import _lanes_in
from shared.kafka_read.offsets import Partition
from shared.transform_totals import Position, Totals, TotalsRecord, as_record

POSITION = Position(9, Totals(topic_id="t", first=4, emitted=5))


def test_a_record_and_its_metadata_are_read_as_they_were_written() -> None:
    _, value = as_record("flights", Partition("events.a", 1), POSITION)
    assert TotalsRecord.parse(value) == TotalsRecord("flights", Partition("events.a", 1), POSITION)
    assert Totals.of_metadata(POSITION.totals.metadata()) == POSITION.totals


@pytest.mark.parametrize(
    "wrong",
    [
        {"next": "nine"},
        {"partition": "1"},
        {"emitted": "many"},
        {"topic": 5},
        {"transform": None},
        {"first": {}},
    ],
)
def test_a_record_of_another_client_is_skipped(wrong: dict[str, object]) -> None:
    _, value = as_record("flights", Partition("events.a", 1), POSITION)
    assert TotalsRecord.parse(orjson.dumps(orjson.loads(value) | wrong)) is None


@pytest.mark.parametrize("value", [None, b"", b"[]", b"5", b"\xff", b'{"next":9}', b"[" * 100_000])
def test_value_that_is_not_a_record_is_skipped(value: bytes | None) -> None:
    assert TotalsRecord.parse(value) is None
    assert _lanes_in(value) is None


def test_an_epoch_of_another_client_fences_no_more_lanes_than_a_transform_has() -> None:
    assert _lanes_in(b'{"lanes":{"flights":2,"trains":1000000000}}') == {"flights": 2, "trains": 16}
    assert _lanes_in(b'{"lanes":{"flights":"2"}}') is None
