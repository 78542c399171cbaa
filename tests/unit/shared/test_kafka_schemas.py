"""Rows that are decoded in one step are those that aiokafka decodes field by field."""

from io import BytesIO

import pytest
from aiokafka.protocol.commit import OffsetFetchResponse_v3
from aiokafka.protocol.metadata import MetadataResponse_v1
from aiokafka.protocol.offset import OffsetRequest_v2, OffsetResponse_v2

from services.ops.kafka_packed_requests import LeadersRequest, OffsetsRequest
from shared.kafka_group_offsets import _OffsetFetchResponse
from shared.kafka_schemas import PackedRows

VERSIONS = {2: (1, 10), 3: (0, 13)}
TOPICS = [("events.a", [(0, -1), (1, -1)]), ("events.b", [(0, -2)])]


def test_a_list_of_rows_has_the_bytes_of_kafkas_array() -> None:
    rows = PackedRows(">iq")
    encoded = rows.encode([(1, 2), (3, -1)])
    assert encoded.hex() == "00000002" + "00000001" + "0000000000000002" + "00000003" + "ff" * 8
    assert rows.decode(BytesIO(encoded)) == [(1, 2), (3, -1)]
    assert rows.decode(BytesIO(b"\xff\xff\xff\xff")) == []
    with pytest.raises(ValueError, match="early"):
        rows.decode(BytesIO(encoded[:-12]))


def test_requests_and_responses_of_offsets_are_those_of_aiokafka() -> None:
    request = OffsetsRequest(1, TOPICS).prepare(VERSIONS)
    assert request.encode() == OffsetRequest_v2(-1, 1, TOPICS).encode()
    topics = [("events.a", [(0, 0, -1, 7), (1, 6, -1, -1)]), ("events.b", [])]
    encoded = OffsetResponse_v2(0, topics).encode()
    assert request.RESPONSE_TYPE.decode(encoded).topics == topics


def test_leaders_are_those_of_aiokafkas_metadata() -> None:
    request = LeadersRequest().prepare(VERSIONS)
    partitions = [(0, 0, 1, [1, 2, 3], [1, 2]), (5, 1, -1, [2], [])]
    brokers = [(1, "host", 9092, None)]
    encoded = MetadataResponse_v1(
        brokers, 1, [(0, "events.a", False, partitions), (0, "events.b", False, [])]
    ).encode()
    found = request.RESPONSE_TYPE.decode(encoded)
    assert found.topics == [
        (0, "events.a", False, [(0, 1, 3), (1, -1, 1)]),
        (0, "events.b", False, []),
    ]


def test_offsets_of_a_group_are_those_of_aiokafka() -> None:
    topics = [("events.a", [(0, 7, "né", 0), (1, -1, None, 3)]), ("events.b", [(0, 1, "", 0)])]
    encoded = OffsetFetchResponse_v3(0, topics, 14).encode()
    found = _OffsetFetchResponse.decode(encoded)
    assert (found.topics, found.error_code) == (topics, 14)
