"""Settings that more than one service has.  Frozen, checked at boot, passed as arguments.

Each comes from the environment (`ONRAMP_KAFKA_BOOTSTRAP` …); ``docs/settings.md`` lists
them all with their defaults and reasons, and a test holds the two together.
"""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class KafkaSettings(BaseSettings):
    """Where Kafka is and how Onramp's topics are made."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_KAFKA_", frozen=True)

    bootstrap: str = Field(
        "127.0.0.1:9092", description="Kafka's bootstrap servers, host:port, comma-separated."
    )
    partitions: int = Field(
        2,
        ge=1,
        le=1000,
        description="Partitions of a new event type's topic; each costs about a millisecond of every batch.",
    )
    replication: int = Field(1, ge=1, le=10, description="Replicas of a new topic; 3 in production.")
    min_insync: int = Field(
        1,
        ge=1,
        le=10,
        description="min.insync.replicas of a new topic: how many replicas a 202 stands on; 2 in production.",
    )


class RegistrySettings(BaseSettings):
    """Where event types and API keys are written down."""

    model_config = SettingsConfigDict(env_prefix="ONRAMP_REGISTRY_", frozen=True)

    file: Path = Field(
        Path("onramp.yaml"),
        description="The registry's file; without it every event name is accepted and no key is known. "
        "One that is named here and not there stops the start.",
    )

    @property
    def named(self) -> bool:
        """Whether somebody said which file: then it must be there."""
        return "file" in self.model_fields_set
