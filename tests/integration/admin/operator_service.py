"""An admin service with operators, each with a key, and events of two teams in its control database."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx2

from stack.registry import OwnRegistry
from tests.integration.admin.admin_service import DIGESTS, Admin

#: By name: the role, and the events that are seen.
OPERATORS: Final = {
    "vera": ("viewer", "*"),
    "otto": ("operator", "*"),
    "ada": ("admin", "*"),
    "olga": ("operator", "order_*"),
    "adam": ("admin", "order_*"),
    "pia": ("operator", "pay?made"),
}
#: Of three event types 4 events each and 4 without a name; one group each, all with one code.
EVENTS: Final = f"""
    INSERT INTO onramp_admin.groups (fingerprint, version, code, event_name, events, first_seen, last_seen)
    SELECT decode(md5('g' || n), 'hex'), 1, 'planted',
           (ARRAY['order_made', 'order_lost', 'pay_made', NULL])[n], 4, now(), now()
    FROM generate_series(1, 4) n;
    INSERT INTO onramp_admin.parked (topic_id, topic, partition, "offset", destination, group_id, code,
                                     event_id, event_name, parked_at, reason, size)
    SELECT '00000000-0000-0000-0000-000000000000', 't', id, n, 'd', id, 'planted', 'e', event_name, now(),
           '{{"detail":"private"}}', 3
    FROM onramp_admin.groups, generate_series(1, 4) n WHERE code = 'planted' ORDER BY id, n;
    INSERT INTO onramp_admin.bytes SELECT id, '"private"' FROM onramp_admin.events WHERE code = 'planted';
    {DIGESTS};
    INSERT INTO onramp_admin.segments (first_event, last_event, name, events, size)
    VALUES (1000000, 1000001, 'planted', 2, 1);
    INSERT INTO onramp_admin.parts (segment, destination, event_name, code, hour, events)
    SELECT 1000000, 'd', unnest(ARRAY['order_made', 'pay_made']), 'planted', now(), 1
"""  # noqa: S608 - our own words


def key_of(name: str) -> str:
    return f"onramp_{name}_{name * 10}"


def registry(*names: str, expired: str = "", senders: str = "shop") -> dict[str, Any]:
    """The registry for these operators, and one whose key has expired."""
    operators = dict[str, Any]()
    for name in (*names, *([expired] if expired else [])):
        role, events = OPERATORS.get(name, ("admin", "*"))
        ends = {"expires": "2026-01-01T00:00:00Z"} if name == expired else {}
        operators[name] = {"role": role, "events": [events], "hashes": [{"sha256": _sha256(name), **ends}]}
    return {"keys": {senders: {"hashes": [{"sha256": _sha256(senders)}]}}, "operators": operators}


@dataclass
class Guarded(Admin):
    """The service, called with the key of one operator."""

    registry: OwnRegistry | None = None
    name: str = ""

    def of(self, name: str) -> "Guarded":
        return replace(self, name=name)

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        key = {"authorization": f"Bearer {key_of(self.name)}"} if self.name else {}
        return super().ask(method, path, **{**more, "headers": key | more.get("headers", {})})

    def start(self, kind: str, **more: Any) -> httpx2.Response:
        asked = {"kind": kind, "filters": {"code": "planted"}, "reason": "it is planted", **more}
        return self.ask("POST", "/v1/jobs", json=asked)

    def get(self, path: str, **query: Any) -> httpx2.Response:
        return self.ask("GET", path, params=query)


def _sha256(name: str) -> str:
    return hashlib.sha256(key_of(name).encode()).hexdigest()
