"""Two Kafka requests that aiokafka does not implement: sizes of logs, one setting of a topic."""

from typing import Final

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Schema, String

from shared.kafka_schemas import PackedRows

_TEXT: Final = String("utf-8")
#: The resource type of a topic.
_TOPIC: Final = 2
#: Sets one setting and preserves the others, which the older request resets.
_SET: Final = 0


class _SizesResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 35
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "dirs",
            Array(
                ("error_code", Int16),
                ("dir", _TEXT),
                (
                    "topics",
                    Array(
                        ("name", _TEXT),
                        #: Partition, bytes, lag, and whether it is a future replica.
                        ("partitions", PackedRows(">iqq?")),
                    ),
                ),
            ),
        ),
    )


class _SizesRequestV1(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 35
    API_VERSION = 1
    RESPONSE_TYPE = _SizesResponse
    SCHEMA = Schema(("topics", Array(("name", _TEXT), ("partitions", Array(Int32)))))


class SizesRequest(Request[_SizesRequestV1]):  # type: ignore[misc]  # aiokafka has no types
    """Requests the sizes of one broker's logs (DescribeLogDirs)."""

    API_KEY = 35

    def build(self, request_struct_class: type[_SizesRequestV1]) -> _SizesRequestV1:
        """Return the request."""
        return request_struct_class(None)


class _SettingResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(("error_code", Int16), ("error_message", _TEXT), ("type", Int8), ("name", _TEXT)),
        ),
    )


class _SettingRequestV0(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = _SettingResponse
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("type", Int8),
                ("name", _TEXT),
                ("settings", Array(("name", _TEXT), ("operation", Int8), ("value", _TEXT))),
            ),
        ),
        ("is_dry", Boolean),
    )


class SettingRequest(Request[_SettingRequestV0]):  # type: ignore[misc]  # aiokafka has no types
    """Sets one setting of a topic; dry, the broker only validates it (IncrementalAlterConfigs)."""

    API_KEY = 44

    def __init__(self, topic: str, name: str, value: str, *, is_dry: bool) -> None:
        self._resource = (_TOPIC, topic, [(name, _SET, value)])
        self._is_dry = is_dry

    def build(self, request_struct_class: type[_SettingRequestV0]) -> _SettingRequestV0:
        """Return the request."""
        return request_struct_class([self._resource], self._is_dry)
