"""Asks Kafka by the client of Spark's JVM for what aiokafka cannot: the topics' UUIDs.

aiokafka does not speak the protocol's version that tells them.
"""

import base64
import re
from typing import Any, Final
from uuid import UUID

from py4j.protocol import Py4JJavaError

from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers

_ASK_MS: Final = "4000"
#: `TopicListing.toString` of Kafka's client.
_LISTED: Final = re.compile(r"\(name=([\w.-]+), topicId=([\w-]{22}), internal=")


class JavaAdmin:
    """Kafka's own admin client, made when it is first asked, and anew for secrets that have changed."""

    def __init__(self, jvm: Any, brokers: Brokers) -> None:
        self._jvm = jvm
        self._brokers = brokers
        self._client: Any = None
        self._made_at = ""

    def topic_ids(self) -> dict[str, str]:
        """The UUIDs of all topics.  Raises `InfrastructureError`."""
        try:
            # As one text: a call to the JVM for each of a thousand topics would take a second.
            listed = self._asked().listTopics().listings().get().toString()
        except Py4JJavaError as e:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"topics: {e.java_exception.getClass()}") from None
        return {name: _uuid(text) for name, text in _LISTED.findall(listed)}

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _asked(self) -> Any:
        moment = self._brokers.security.moment
        if moment != self._made_at:
            self.close()
        if self._client is None:
            properties = self._jvm.java.util.HashMap()
            for name, value in self._brokers.java().items():
                properties[name] = value
            properties["default.api.timeout.ms"] = properties["request.timeout.ms"] = _ASK_MS
            self._client = self._jvm.org.apache.kafka.clients.admin.Admin.create(properties)
            self._made_at = moment
        return self._client


def _uuid(kafka_text: str) -> str:
    """Kafka writes its UUIDs in base 64."""
    return str(UUID(bytes=base64.urlsafe_b64decode(kafka_text + "==")))
