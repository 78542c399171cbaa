"""The admin service's application in this process, with operators, for tests of its routes."""

import html
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx2
import orjson
from fastapi import FastAPI
from fastapi.testclient import TestClient

from services.admin.api.app import api
from services.admin.api.operators import Operators
from services.admin.dead_letters.ingester import IngesterStatus
from services.admin.figures.settings import FiguresSettings
from services.admin.figures.transforms_watch import TransformsWatch
from services.admin.figures.watch import FiguresWatch
from services.admin.registry_api.routes import add_registry
from services.admin.samples_api.routes import add_samples
from services.admin.store.control_sql import prepare, transaction
from services.admin.ui.app import add_ui
from services.admin.waiting_api.routes import add_waiting
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import RegistryReader
from services.ops.settled.reader import SettledReader
from services.ops.transforms.reader import TransformReader
from shared.kafka_security import Brokers
from shared.postgres.source_dsns import SourceDsns
from shared.registry.log import MemoryLog
from shared.registry.memory import MemoryRegistry
from shared.settings import KafkaSettings, RegistrySettings
from tests.integration.admin.operator_service import OPERATORS, key_of, registry

_FORM: Final = re.compile(r'<form[^>]* action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
_HIDDEN: Final = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
SAME_ORIGIN: Final = {"sec-fetch-site": "same-origin"}
WHY: Final = {"reason": "it is fixed"}


@dataclass
class Browser:
    """The pages, as an operator sees them."""

    client: TestClient

    def see(self, path: str, **query: Any) -> str:
        """Return the text of a page."""
        answer = self.client.get(f"/ui{path}", params=query)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def send(self, page: str, to: str, **typed: str) -> httpx2.Response:
        """Send the form of a page (its text) to a path, with its hidden fields and the given values."""
        [form] = [each for each in _FORM.findall(page) if html.unescape(each[0]) == f"/ui{to}"]
        hidden = {name: html.unescape(value) for name, value in _HIDDEN.findall(form[1])}
        return self.client.post(f"/ui{to}", data=hidden | typed, headers=SAME_ORIGIN)


@dataclass
class Inside:
    """The application, called with the key of one operator."""

    client: TestClient
    dsn: str
    name: str = "ada"

    def of(self, name: str) -> "Inside":
        return replace(self, name=name)

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {key_of(self.name)}"} | more.pop("headers", {})
        return self.client.request(method, path, headers=headers, **more)

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, params=query).json()

    def post(self, path: str, etag: str | None = None, **body: Any) -> httpx2.Response:
        headers = {} if etag is None else {"if-match": f'"{etag}"'}
        return self.ask("POST", path, json=WHY | body, headers=headers)

    def browser(self) -> "Browser":
        """Return a browser without JavaScript in which this operator is logged in."""
        client = TestClient(self.client.app, base_url="http://127.0.0.1", follow_redirects=False)
        answer = client.post("/ui/login", data={"key": key_of(self.name)}, headers=SAME_ORIGIN)
        assert answer.status_code == 303, answer.text
        return Browser(client)

    def acts(self) -> list[tuple[str, str, str]]:
        found = self.of("ada").get("/v1/audit-log")["acts"]
        return [(act["actor"], act["act"], act["subject"]) for act in found]


@contextmanager
def inside(  # noqa: PLR0917 - each is one setting
    dsn: str,
    databases: Mapping[str, str],
    bootstrap: str = "127.0.0.1:1",
    known: Mapping[str, Any] | None = None,
    source_dsns: Mapping[str, str] | None = None,
    preview_seconds: float = 0,
) -> Iterator[Inside]:
    """Run it on the control database `dsn`; `known`: further sections of the registry."""
    document = registry(*OPERATORS) | dict(known or {})
    log = MemoryLog()
    log.append(
        orjson.dumps(
            {"format": 1, "after": -1, "actor": "ada", "time": "2026-01-01T00:00:00Z", "put": document}
        )
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    with transaction(dsn) as conn:
        prepare(conn)
    operators = Operators(MemoryRegistry(document))
    app = api(dsn, databases, IngesterStatus(), operators, lifespan=lifespan)
    kafka = KafkaSettings(bootstrap=bootstrap)
    desk = RegistryReader(kafka, RegistrySettings(), KnownPlaces(databases), opened=lambda: log)
    add_registry(app, dsn, desk)
    add_samples(app, dsn, desk, preview_seconds=preview_seconds)
    add_waiting(app, dsn, desk, SourceDsns(env=source_dsns or {}), writers=["http://127.0.0.1:1"])
    nowhere = FiguresSettings(gateway_urls="http://gateway.example", writer_urls="")
    app.state.figures = FiguresWatch(nowhere, Brokers(bootstrap), dsn, {}, SettledReader())
    app.state.transforms = TransformsWatch(TransformReader(Brokers(bootstrap)), lambda: desk.read().snapshot)
    add_ui(app, dsn, operators)
    with TestClient(app) as client:
        yield Inside(client, dsn)
