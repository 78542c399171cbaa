"""One project of docker-compose.yml on free ports: up, events, rows, crashes of containers, down."""

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import psycopg2

from stack.ports import LOOPBACK, free_port
from tests.compose.engine import Docker, kill_container
from tests.unit.conventions.tree import ROOT
from tests.unit.deploy import compose_file

_PORT: Final = re.compile(r"ONRAMP_COMPOSE_\w+_PORT")
_UP_SECONDS: Final = "900"
PATIENCE_SECONDS: Final = 600.0


class ComposeStack:
    """The stack of one Compose project."""

    def __init__(self, docker: Docker, project: str, sources: Path, override: Path) -> None:
        """`override`: a second Compose file, with services and settings of the test only."""
        self._docker = docker
        self.ports = {name: str(free_port()) for name in set(_PORT.findall(compose_file.TEXT))}
        docker.env |= {**self.ports, "ONRAMP_COMPOSE_SOURCES": str(sources)}
        files = ["--file", str(ROOT / "docker-compose.yml"), "--file", str(override)]
        self._base = ["--project-name", project, "--project-directory", str(ROOT), *files]
        self._variables = {"COMPOSE_PROJECT_NAME": project, "COMPOSE_FILE": os.pathsep.join(files[1::2])}

    def compose(self, *arguments: str, profiles: tuple[str, ...] = (), text: str | None = None) -> str:
        """Run a command of Compose on the project."""
        chosen = [each for profile in profiles for each in ("--profile", profile)]
        return self._docker.compose(*self._base, *chosen, *arguments, text=text)

    def shell(self, code: str) -> str:
        """Run commands of a page on the project, and return their output.  Raises `CalledProcessError`."""
        return self._docker.shell(code, self._variables, ROOT)

    def up(self, *services: str, profiles: tuple[str, ...] = ()) -> None:
        """Build, start and wait until every service is healthy."""
        wait = ["--build", "--wait", "--wait-timeout", _UP_SECONDS]
        self.compose("up", *wait, *services, profiles=profiles)

    def down(self, *, volumes: bool = False) -> None:
        """Stop and remove all containers."""
        self.compose("down", *(["--volumes"] if volumes else []), profiles=("*",))

    def crash(self, service: str) -> None:
        """SIGKILL the first process of a service; its restart policy starts it again."""
        kill_container(self._docker, self.compose("ps", "--quiet", service).strip())

    def secret(self, file: str) -> str:
        """Return a file that the service `secrets` has made."""
        command = ["run", "--rm", "--no-deps", "--entrypoint", "cat", "secrets", f"/volumes/{file}"]
        return self.compose(*command).strip()

    def onramp(self, *arguments: str, service: str = "apply", env: Mapping[str, str] | None = None) -> str:
        """Run a verb of the command line in a container with the settings and volumes of a service."""
        given = [each for name, value in (env or {}).items() for each in ("--env", f"{name}={value}")]
        entry = ["--entrypoint", "python -m services.cli"]
        run = ["run", "--rm", "--no-TTY", "--no-deps", *given, *entry, service, *arguments]
        return self.compose(*run, profiles=("lake",))

    def page(self, service: str, path: str, *, key: str = "", body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON document of a service's page, or the answer to a POST of `body`."""
        url = f"http://{LOOPBACK}:{self.port(service)}{path}"
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            return json.load(answer)

    @property
    def gateway(self) -> str:
        """The gateway's address on this machine."""
        return f"http://{LOOPBACK}:{self.ports['ONRAMP_COMPOSE_GATEWAY_PORT']}"

    def port(self, service: str) -> str:
        """Return the port of a service on this machine."""
        return self.ports[f"ONRAMP_COMPOSE_{service}_PORT"]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query in Onramp's database; no rows while the database is down or a table is missing."""
        dsn = {
            "host": LOOPBACK,
            "port": self.port("POSTGRES"),
            "user": "onramp",
            "dbname": "onramp",
            "password": self.password,
        }
        try:
            with _connection(dsn) as conn, conn.cursor() as cursor:
                cursor.execute(query)
                rows: list[tuple[Any, ...]] = cursor.fetchall()
                return rows
        except (psycopg2.OperationalError, psycopg2.errors.UndefinedTable, psycopg2.errors.InvalidSchemaName):
            return []

    password: str = ""


@contextmanager
def _connection(dsn: Mapping[str, str]) -> Iterator[Any]:
    conn = psycopg2.connect(connect_timeout=5, **cast("Any", dsn))
    try:
        yield conn
    finally:
        conn.close()


def wait_until(condition: Callable[[], bool], what: str, state: Callable[[], object]) -> None:
    """Wait for a condition.  Raises `AssertionError` with the state after ten minutes."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not after {PATIENCE_SECONDS:g} s, but {state()}")
        time.sleep(0.5)


def owned_by_images(folder: Path) -> None:
    """Give a folder and its files to the user of the images."""
    for each in (folder, *folder.iterdir()):
        os.chown(each, 10001, 10001)
