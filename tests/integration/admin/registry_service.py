"""An admin service with operators, a registry and a database of destinations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from stack import services
from stack.registry import OwnRegistry
from tests.fixtures.running_part import started
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.operator_service import OPERATORS, Guarded, registry

WHY: Final = {"reason": "the shop has moved"}
TYPE: Final = {"owner": "shop", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}


class Office(Guarded):
    """The service, in which ada changes the registry."""

    @property
    def tag(self) -> str:
        return str(self.of("ada").get("/v1/registry").headers["etag"])

    @property
    def types(self) -> dict[str, Any]:
        found: dict[str, Any] = self.of("vera").get("/v1/registry").json()["event_types"]
        return found

    @property
    def acts(self) -> list[list[Any]]:
        found = self.rows("SELECT actor, act, subject, reason FROM onramp_admin.acts ORDER BY id")
        return [list(act) for act in found]

    @property
    def history(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.of("vera").get("/v1/registry/history", limit=500).json()["history"]
        return found

    @property
    def bootstrap(self) -> str:
        assert self.registry is not None
        return self.registry.bootstrap

    def change(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Send a request as ada, with the current state and a reason by default."""
        headers = {"if-match": self.tag} | more.pop("headers", {})
        params = WHY | more.pop("params", {})
        return self.of("ada").ask(method, path, headers=headers, params=params, **more)


@contextmanager
def office_of(bootstrap: str, server: str, folder: Path) -> Iterator[Office]:
    """Run it, with a registry and a database of its own."""
    own = OwnRegistry(bootstrap, {**registry(*OPERATORS), "event_types": {}})
    with database_beside(server, "template0") as dsn:
        env = {**own.env, "ONRAMP_WRITER_DSN": dsn}
        service = services.admin(bootstrap=bootstrap, dsn=dsn, log=folder / "admin.log", env=env)
        with started(service):
            yield Office(service, dsn, own)
