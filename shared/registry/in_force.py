"""Reads the registry in force once, for trials on past events: nothing is created or followed."""

from typing import NamedTuple

from shared.errors import OWN_TOPIC_MISSING, InfrastructureError
from shared.registry.change_log import Chain
from shared.registry.entries import EMPTY, Snapshot
from shared.registry.factory import open_log
from shared.registry.log_registry import LogRegistry
from shared.settings import KafkaSettings, RegistrySettings


class InForce(NamedTuple):
    """The registry that services follow, and the log of changes that produced it; None without its topic."""

    snapshot: Snapshot
    chain: Chain | None = None


def in_force(settings: RegistrySettings, kafka: KafkaSettings) -> InForce:
    """Return the registry that services follow; if its topic does not exist, an empty registry.

    The topic is not created.  Raise `InfrastructureError`.
    """
    log = open_log(settings, kafka.model_copy(update={"create_topics": False}))
    registry = LogRegistry(log)
    try:
        log.span()
        registry.refresh()
        return InForce(registry.snapshot(), registry.chain)
    except InfrastructureError as e:
        if e.fault is OWN_TOPIC_MISSING:
            return InForce(EMPTY)
        raise
    finally:
        registry.close()
