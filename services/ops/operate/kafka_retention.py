"""Changes the retention of an event topic, and no other setting."""

from typing import Any, Final, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidTopicError, KafkaError, NoError, UnknownTopicOrPartitionError, for_code

from services.ops.kafka_requests import SettingRequest
from services.ops.operate.topics import is_own
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.registry.texts import milliseconds

_SETTING: Final = "retention.ms"
_REQUEST_MS: Final = 10_000


class Retained(NamedTuple):
    """A topic's retention before and after the change, in milliseconds; -1 is unlimited."""

    topic: str
    before_ms: int
    after_ms: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return self._asdict()


async def change(brokers: Brokers, topic: str, retention: str, *, is_dry: bool) -> Retained:
    """Set a topic's retention (36h, 30d); dry, have Kafka only validate it.

    Raises:
        ValueError: invalid retention, not an event topic, or refused by Kafka.
        InfrastructureError: Kafka cannot be reached.
    """
    after = milliseconds(retention)
    if is_own(topic):
        raise ValueError("not an event topic: the retention of other topics cannot be changed here")
    admin = AIOKafkaAdminClient(**brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
    try:
        await admin.start()
        before = await _now(admin, topic)
        request = SettingRequest(topic, _SETTING, str(after), is_dry=is_dry)
        ((code, *_),) = (await admin._send_request(request)).resources  # noqa: SLF001 - there is no other way
    except (KafkaError, OSError) as e:
        text = f"Kafka at {brokers} does not answer: {type(e).__name__}"
        raise InfrastructureError(KAFKA_UNAVAILABLE, text) from None
    finally:
        await admin.close()
    if (error := for_code(code)) is not NoError:
        raise ValueError(f"Kafka refuses: {error.__name__}")
    return Retained(topic, before, after)


async def _now(admin: Any, topic: str) -> int:
    """Return the topic's retention. Raises `ValueError` for a missing or unreadable topic."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {_SETTING: None})
    code, _, _, _, entries = (await admin.describe_configs([resource]))[0].resources[0]
    if for_code(code) in {UnknownTopicOrPartitionError, InvalidTopicError}:
        raise ValueError("there is no such topic: `onramp topics list` prints the topics")
    if code:
        raise ValueError(f"Kafka refuses: {for_code(code).__name__}")
    return next((int(entry[1]) for entry in entries if entry[0] == _SETTING), -1)
