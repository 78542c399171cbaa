"""Registries of several sizes for the bench, changed while gateways follow them."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.gateways import KEY, Variant
from shared.registry.difference import Difference
from shared.registry.editor import Editor
from stack import services
from stack.kafka import Kafka
from stack.ports import free_port
from stack.registry import OwnRegistry

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer"}, "note": {"type": "string", "maxLength": 1000}},
}


class Changed(NamedTuple):
    """A change: the resulting digest, and the time of its start (`perf_counter`)."""

    digest: str
    begun: float


class Watched:
    """Changes a registry entry by entry, and records each change's digest."""

    def __init__(self, registry: OwnRegistry) -> None:
        self._log = registry.open()
        self._editor = Editor(self._log)

    def change(self, put: dict[str, Any], section: str = "keys") -> Changed:
        """Bring entries of a section into force."""
        begun = time.perf_counter()
        self._editor.write(Difference({section: put}, {}), "bench", "")
        return Changed(self._editor.chain.snapshot().digest, begun)

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def many_types(count: int) -> dict[str, Any]:
    """Return a registry of `count` event types with a schema each, and the type `bench` without one."""
    types = {f"type_{n}": {"owner": f"team {n % 50}", "schema": _SCHEMA} for n in range(count - 1)}
    return {"event_types": {"bench": {}, **types}}


def routed_types(count: int) -> dict[str, Any]:
    """Return a registry of `count` event types that land in tables by their own contract."""
    return {
        "event_types": {
            f"routed_{n}": {
                "contract": {"unknown_fields": "discard"},
                "destinations": [{"schema": "public", "table": f"routed_{n}"}],
            }
            for n in range(count)
        }
    }


def gateway_of(kafka: Kafka, folder: Path, registry: OwnRegistry, name: str) -> Variant:
    """Return a gateway that follows a registry, not started."""
    port, admin = free_port(), free_port()
    env = {"ONRAMP_INGEST_DEV_KEY": KEY, "ONRAMP_INGEST_ADMIN_PORT": str(admin), **registry.env}
    log = folder / f"gateway-{name}.log"
    service = services.gateway(bootstrap=kafka.bootstrap, log=log, port=port, env=env)
    service.port, service.url = admin, f"http://127.0.0.1:{admin}"
    return Variant(service, port, None)


@contextmanager
def gateways_of(
    kafka: Kafka, folder: Path, registries: dict[str, OwnRegistry]
) -> Iterator[dict[str, Variant]]:
    """Start a gateway for each registry; stop them at the end."""
    with ExitStack() as stack:
        up = {name: gateway_of(kafka, folder, registry, name) for name, registry in registries.items()}
        for gateway in up.values():
            gateway.service.start()
            stack.callback(gateway.service.stop)
        for gateway in up.values():
            gateway.service.wait_ready()
        yield up
