"""Reads the topics' UUIDs with Kafka's Java client in Spark's JVM.

aiokafka does not speak the version of the protocol that has them.
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
    """Kafka's Java admin client, created at the first request and whenever files of secrets have changed."""

    def __init__(self, jvm: Any, brokers: Brokers) -> None:
        self._jvm = jvm
        self._brokers = brokers
        self._client: Any = None
        self._built_with = ""

    def topic_ids(self) -> dict[str, str]:
        """Return the UUIDs of all topics, by name.  Costs one request.  Raises `InfrastructureError`."""
        try:
            # As one text: a call to the JVM for each of a thousand topics would take a second.
            listed = self._connected().listTopics().listings().get().toString()
        except Py4JJavaError as e:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"topics: {e.java_exception.getClass()}") from None
        return {name: _uuid(text) for name, text in _LISTED.findall(listed)}

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:
        version = self._brokers.security.files_version
        if version != self._built_with:
            self.close()
        if self._client is None:
            properties = self._jvm.java.util.HashMap()
            for name, value in self._brokers.java().items():
                properties[name] = value
            properties["default.api.timeout.ms"] = properties["request.timeout.ms"] = _ASK_MS
            self._client = self._jvm.org.apache.kafka.clients.admin.Admin.create(properties)
            self._built_with = version
        return self._client


def _uuid(kafka_text: str) -> str:
    """Convert a UUID in Kafka's spelling, base 64."""
    return str(UUID(bytes=base64.urlsafe_b64decode(kafka_text + "==")))
