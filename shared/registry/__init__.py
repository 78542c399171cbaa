"""The registry of event types, keys and routes, behind one port."""

from shared.registry.entries import ApiKey, Destination, EventType, KeyHash, Operator, Role, Snapshot
from shared.registry.port import Registry

__all__ = ["ApiKey", "Destination", "EventType", "KeyHash", "Operator", "Registry", "Role", "Snapshot"]
