"""A separate registry for benches and tests on shared brokers."""

import secrets
from typing import Any

from shared.registry.difference import difference
from shared.registry.editor import Editor
from shared.registry.entries import Snapshot
from shared.registry.factory import open_log
from shared.registry.kafka_log import KafkaLog
from shared.settings import KafkaSettings, RegistrySettings


class OwnRegistry:
    """A separate registry topic, which services follow when they are started with `env`."""

    def __init__(
        self,
        bootstrap: str,
        document: Any = None,
        *,
        kafka: KafkaSettings | None = None,
        of_file: bool = False,
    ) -> None:
        """Choose a name; the first document creates the topic, an empty one unless it is given.

        Args:
            bootstrap: the brokers.
            document: the sections that are in force.
            kafka: how the brokers are reached, if they authenticate clients.
            of_file: what the document says is a file's, as `onramp apply` writes it.
        """
        self.bootstrap = bootstrap
        self._kafka = kafka or KafkaSettings(bootstrap=bootstrap)
        self._of_file = of_file
        self.settings = RegistrySettings(topic=f"onramp.registry.{secrets.token_hex(6)}")
        self.put(document or {})

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.settings.topic

    @property
    def env(self) -> dict[str, str]:
        """The environment of services that follow it."""
        return {"ONRAMP_REGISTRY_TOPIC": self.topic}

    def open(self) -> KafkaLog:
        """Return the registry's log; the caller closes it."""
        return open_log(self.settings, self._kafka)

    def put(self, document: Any) -> int | None:
        """Bring the sections of a document into force; return the offset, None when nothing differs.

        The document replaces all earlier entries of these sections.  Raises as `Editor` does.
        """
        log = self.open()
        try:
            editor = Editor(log)
            change = difference(editor.chain, Snapshot.model_validate(document))
            return None if change.is_empty else editor.write(change, "own", "", of_file=self._of_file)
        finally:
            log.close()
