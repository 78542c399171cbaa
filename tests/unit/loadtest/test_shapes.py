"""The schedule is independent of answers, and a packet has its declared size."""

import gzip
import json

import pytest

from loadtest.bodies import FIRST_NUMBER, Bodies, Names, data, one
from loadtest.shapes import BATCH, KAFKA, NAMES, NDJSON, SEEDS, SINGLE, SYSLOG, Shape, Step, named
from shared import envelope

RUN = Names("c0ffee")


def shape(via: str, size: int, batch: int = 1) -> Shape:
    return Shape(name="x", via=via, size=size, batch=batch, steps=(Step(1, 10),))


@pytest.mark.parametrize(
    ("name", "a_minute"),
    [
        ("kapow-250b-8k-kafka", 8_000),
        ("kapow-250b-8k-http", 8_000),
        ("kapow-15b-80k-kafka", 80_000),
        ("kapow-15b-80k-http", 80_000),
        ("kapow-250b-x100", 800_000),
        ("kapow-15b-x60", 4_800_000),
    ],
)
def test_the_published_rates_are_offered(name: str, a_minute: int) -> None:
    asked = named(name, 60)
    starts = list(asked.starts())
    assert len(starts) * asked.batch == pytest.approx(a_minute, rel=1e-4)
    assert starts == sorted(starts)
    assert starts[-1] < 60


@pytest.mark.parametrize("name", SEEDS)
def test_the_published_test_runs_on_three_brokers(name: str) -> None:
    assert named(name, 60).brokers == 3


@pytest.mark.parametrize("name", NAMES)
def test_every_shape_can_be_as_short_as_one_likes(name: str) -> None:
    starts = list(named(name, 2).starts())
    assert starts[0] == 0
    assert starts[-1] < 2


def test_rates_change_from_step_to_step() -> None:
    rising = Shape(name="x", via=SINGLE, size=15, steps=(Step(1, 2), Step(1, 4)))
    assert list(rising.starts()) == [0, 0.5, 1, 1.25, 1.5, 1.75]
    assert [rising.rate_at(second) for second in (0, 0.9, 1.1, 9)] == [2, 2, 4, 4]


@pytest.mark.parametrize("size", [15, 16, 26, 250, 1000])
def test_size_is_the_bytes_of_the_data(size: int) -> None:
    written = data(size)
    # Between a bare number and one with a note there is nothing to fill with.
    assert len(written) == (size if size == 15 or size >= 25 else 15)
    assert json.loads(written)["i"] == 999_999_999


@pytest.mark.parametrize("via", [SINGLE, BATCH, NDJSON])
def test_each_event_is_a_valid_envelope_with_a_number_of_its_own(via: str) -> None:
    batch = 1 if via == SINGLE else 3
    body = Bodies(shape(via, 250, batch), RUN).body(FIRST_NUMBER + 7)
    if via == NDJSON:
        events = gzip.decompress(body).splitlines()
    else:
        told = json.loads(body)
        events = [json.dumps(each).encode() for each in (told if via == BATCH else [told])]
    for number, event in enumerate(events, FIRST_NUMBER + 7):
        parsed = envelope.parse(event)
        assert parsed.metadata.id == f"c0ffee-{number}"
        assert parsed.event_name == "load_c0ffee"
        payload = json.loads(event)["payload"]
        assert payload["i"] == number
        assert len(json.dumps(payload, separators=(",", ":"))) == 250
    assert len(events) == batch


def test_a_packet_names_the_runs_table() -> None:
    packet = json.loads(Bodies(shape(KAFKA, 15), RUN).body(FIRST_NUMBER))
    (destination,) = packet["pipeline_context"]["destinations"]
    assert (destination["schema"], destination["table"]) == ("public", "load_c0ffee")
    assert json.dumps(packet["data"], separators=(",", ":")) == '{"i":100000000}'


def test_syslog_lines_end_and_carry_the_number_first() -> None:
    lines = Bodies(shape(SYSLOG, 100, 2), RUN).body(FIRST_NUMBER)
    assert lines.endswith(b"\n")
    first, second = lines.splitlines()
    assert first.split(b" - - - ")[1].startswith(b"100000000 x")
    assert len(second.split(b" - - - ")[1]) == 100
    assert b"load_c0ffee" in one(shape(SYSLOG, 100), RUN)


def test_single_ways_refuse_batches() -> None:
    with pytest.raises(ValueError, match="one packet at a time"):
        shape(KAFKA, 15, batch=2)
