"""The parts of `onramp up` with a second database server, each of which a test can stop, kill and start."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import httpx2

from stack import services
from stack.demo import Demo
from stack.dev_key import dev_key, operator_key
from stack.kafka import Kafka
from stack.login_link import login_link
from stack.postgres import Postgres
from stack.report import Silent
from stack.services import Service
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.running_part import started

#: The public name of the second database.
SECOND: Final = "reports"
#: Keys are required, as under `onramp up`; tests of other folders need none.
_KEYS: Final = {"ONRAMP_ALLOW_KEYLESS": "false"}


class RealStack:
    """Kafka, two Postgres servers, gateway, writer and admin service."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kafka = Kafka(folder / "kafka")
        #: The first has the control database too; the second may be down.
        self.first = Postgres(folder / "first", settings=FAST)
        self.second = Postgres(folder / "second", settings=FAST)
        self.key = dev_key(folder)

    @property
    def url(self) -> str:
        """The address of the web UI."""
        return self.admin.url

    @cached_property
    def gateway(self) -> Service:
        env = {"ONRAMP_INGEST_DEV_KEY": self.key, **_KEYS}
        return services.gateway(bootstrap=self.kafka.bootstrap, log=self._folder / "gateway.log", env=env)

    @cached_property
    def writer(self) -> Service:
        return services.writer(
            bootstrap=self.kafka.bootstrap,
            dsn=self.first.dsn,
            log=self._folder / "writer.log",
            env=self._databases,
        )

    @cached_property
    def admin(self) -> Service:
        env = {
            **self._databases,
            **_KEYS,
            "ONRAMP_WRITER_DSN": self.first.dsn,
            "ONRAMP_ADMIN_DEV_KEY": operator_key(self._folder),
            "ONRAMP_ADMIN_STORE": str(self._folder / "segments"),
            "ONRAMP_GATEWAY_URLS": self.gateway.url,
            "ONRAMP_WRITER_URLS": self.writer.url,
        }
        return services.admin(
            bootstrap=self.kafka.bootstrap, dsn=self.first.dsn, log=self._folder / "admin.log", env=env
        )

    @property
    def _databases(self) -> dict[str, str]:
        return {"ONRAMP_WRITER_DATABASES": json.dumps({SECOND: self.second.dsn})}

    def login_link(self) -> str:
        """Return the link that `onramp up` prints."""
        link = login_link(self.admin.url, operator_key(self._folder), seconds=60)
        assert link
        return link

    def digest_of_routes(self) -> str:
        """Return the digest of the registry that the writer routes events by."""
        page = httpx2.get(f"{self.writer.url}/metrics", timeout=30).text
        found = re.search(r'^onramp_registry_info\{digest="(\w+)"\} 1', page, re.MULTILINE)
        assert found, "the writer has read no registry"
        return found[1]

    def send_flights(self, count: int) -> None:
        """Send flights as `make run` does, and wait until they have landed."""
        outcome = Demo(self.gateway.url, self.first.dsn, count, Silent(), api_key=self.key).run()
        assert outcome.adds_up, outcome

    def send(self, events: Sequence[dict[str, Any]]) -> None:
        """Send events with curl; all must be accepted."""
        self.curl(
            *("-H", f"Authorization: Bearer {self.key}", "-H", "Content-Type: application/json"),
            *(f"{self.gateway.url}/v1/events", "--data-binary", "@-"),
            body=json.dumps(events),
        )

    def curl(self, *arguments: str, body: str = "") -> None:
        """Run curl; an answer that is not a success raises."""
        subprocess.run(
            ["curl", "--fail-with-body", "--silent", "--show-error", "--max-time", "60", *arguments],
            input=body.encode(),
            capture_output=True,
            check=True,
        )


@contextmanager
def running(folder: Path) -> Iterator[RealStack]:
    """Start the parts in the order of `onramp up`, and stop them in reverse order."""
    stack = RealStack(folder)
    with ExitStack() as parts:
        for part in (stack.kafka, stack.first, stack.second):
            parts.enter_context(started(part))
        for service in (stack.writer, stack.gateway, stack.admin):
            parts.callback(service.stop)
            service.start()
        for service in (stack.gateway, stack.admin, stack.writer):
            service.wait_ready()
        yield stack
