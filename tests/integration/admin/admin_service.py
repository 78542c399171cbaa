"""An admin service for tests, with requests over its socket and access to its control database."""

from dataclasses import dataclass
from typing import Any

import httpx2

from stack.services import Service
from tests.fixtures.writer import eventually, rows

#: Gives planted events the digests of their bytes, as the ingester does.
DIGESTS = "UPDATE onramp_admin.parked SET sha256 = sha256(value) FROM onramp_admin.bytes WHERE event = id"


@dataclass
class Admin:
    """The service, and the database in which it keeps."""

    service: Service
    dsn: str

    def get(self, path: str, **query: Any) -> httpx2.Response:
        return self.ask("GET", path, params=query)

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        with httpx2.Client(base_url=self.service.url, timeout=60) as client:
            return client.request(method, path, **more)

    def reveal(self, event: int) -> httpx2.Response:
        return self.ask("POST", f"/v1/events/{event}/reveal", json={"actor": "ann", "reason": "to see it"})

    def groups(self, **filters: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/v1/groups", **filters).json()["groups"]
        return found

    def kept(self, event_name: str, events: int) -> list[dict[str, Any]]:
        """The groups of an event type, once they have that many events."""
        return eventually(
            lambda: found if _count(found := self.groups(event_name=event_name)) == events else [], 120
        )

    def events(self, **filters: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/v1/events", **filters).json()["events"]
        return found

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return rows(self.dsn, statement)


def _count(groups: list[dict[str, Any]]) -> int:
    return sum(group["events"] for group in groups)


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Return the problem that an answer is."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    said: dict[str, Any] = answer.json()
    assert (said["type"], said["status"]) == (f"/errors/{code}", status)
    assert said["title"]
    assert said["fix"]
    return said
