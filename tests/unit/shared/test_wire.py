"""The names on Kafka, and the partitioner against librdkafka's own."""

import ctypes
import json
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import wire
from shared.partitioner import partition_of


def _librdkafka_consistent() -> Callable[[bytes, int], int]:
    """The C function behind `partitioner=consistent`, from the library inside the test group's wheel."""
    home = Path(confluent_kafka.__file__).parent
    library = next((home.parent / "confluent_kafka.libs").glob("librdkafka*"), None)
    assert library is not None, "this wheel of confluent-kafka hides its librdkafka: ask it another way"
    function = ctypes.CDLL(str(library)).rd_kafka_msg_partitioner_consistent
    function.restype = ctypes.c_int32
    function.argtypes = [
        ctypes.c_void_p,  # the topic, which this partitioner does not look at
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    return lambda key, partitions: int(function(None, key, len(key), partitions, None, None))


@pytest.fixture(scope="module")
def librdkafka() -> Callable[[bytes, int], int]:
    return _librdkafka_consistent()


@given(key=st.binary(min_size=1, max_size=200), partitions=st.integers(1, 1000))
def test_the_partition_is_librdkafkas(
    librdkafka: Callable[[bytes, int], int], key: bytes, partitions: int
) -> None:
    assert partition_of(key, partitions) == librdkafka(key, partitions)


@pytest.mark.parametrize(
    ("key", "crc"),
    # The check value of CRC-32/ISO-HDLC, and two that any other client must agree with.
    [(b"123456789", 0xCBF43926), (b"order-1001", 0x0DC31A39), (b"", 0)],
)
def test_known_values(key: bytes, crc: int) -> None:
    assert partition_of(key, 1 << 32) == crc


def test_the_default_topic_of_an_event() -> None:
    assert wire.topic_of("order_placed") == "events.order_placed"


@pytest.mark.parametrize(
    ("name", "reserved"),
    [("onramp_x", True), ("onramp_", True), ("onramp", False), (wire.PROBE_EVENT, False), ("order", False)],
)
def test_reserved_names(name: str, reserved: bool) -> None:
    assert wire.is_reserved(name) is reserved


def test_the_filters_usual_bytes_are_the_filter() -> None:
    assert json.loads(wire.CONTEXT_BYTES) == wire.CONTEXT


def test_own_topics_are_no_event_topics() -> None:
    for topic in (wire.USER_ERRORS, wire.SYSTEM_ERRORS, wire.SETTLED, wire.WRITERS):
        assert not topic.startswith(wire.EVENT_TOPIC_PREFIX)
