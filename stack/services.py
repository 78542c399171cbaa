"""Starts the gateway and the writer as child processes, the way production starts them.

Addresses are given by environment variables only; a service is ready when its own `/readyz` says so.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from stack.java import find_java
from stack.part_process import answers_ok
from stack.ports import LOOPBACK, free_port
from stack.processes import Child, Command, wait_for

ROOT = Path(__file__).resolve().parent.parent
ADMIN_READY_SECONDS = 90.0
GATEWAY_READY_SECONDS = 90.0
TRACER_READY_SECONDS = 90.0
WRITER_READY_SECONDS = 240.0


class Service:
    """One of our services as a child process: start, wait until ready, stop, kill, start again."""

    def __init__(self, command: Command, port: int, ready_seconds: float) -> None:
        """Wrap the command; nothing runs before `start`."""
        self.child = Child(command)
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"
        self._ready_seconds = ready_seconds

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    @property
    def children(self) -> list[Child]:
        """The service's process; its descendants are its family."""
        return [self.child]

    @property
    def log(self) -> Path:
        """The service's log: JSON lines, and whatever its libraries print."""
        return self.child.command.log

    def start(self) -> None:
        """Start the service."""
        self.child.start()

    def wait_ready(self, seconds: float | None = None, check: Callable[[], None] = lambda: None) -> None:
        """Wait until the service itself says that it is ready; `check` may raise to end the wait.

        Raises:
            StackError: it ended or the time ran out; with the end of its log.
        """
        wait_for(
            self.is_ready,
            self.child,
            seconds or self._ready_seconds,
            waiting_for=f"{self.url}/readyz does not answer 200",
            check=check,
        )

    def is_ready(self) -> bool:
        """Ask `/readyz` once."""
        return answers_ok(self.port, "/readyz")

    def check(self) -> None:
        """Raise if the service has ended by itself."""
        self.child.check()

    def stop(self) -> None:
        """Stop the service: SIGTERM, its grace, then its whole family."""
        self.child.stop()

    def kill(self) -> None:
        """End the service and everything it started, as `kill -9` would."""
        self.child.kill()


def gateway(
    *, bootstrap: str, log: Path, port: int | None = None, env: Mapping[str, str] | None = None
) -> Service:
    """Return the gateway for these brokers, not started."""
    port = port or free_port()
    variables = {
        "ONRAMP_INGEST_HOST": LOOPBACK,
        "ONRAMP_INGEST_PORT": str(port),
        "ONRAMP_KAFKA_BOOTSTRAP": bootstrap,
        **(env or {}),
    }
    return Service(_command("gateway", "services.ingest", log, variables), port, GATEWAY_READY_SECONDS)


def writer(
    *,
    bootstrap: str,
    dsn: str,
    log: Path,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Service:
    """Return the writer for these brokers and this database, not started."""
    port = port or free_port()
    variables = _for_spark(bootstrap, dsn) | {"ONRAMP_WRITER_HTTP_PORT": str(port), **(env or {})}
    return Service(_command("writer", "services.writer", log, variables), port, WRITER_READY_SECONDS)


def admin(
    *, bootstrap: str, dsn: str, log: Path, port: int | None = None, env: Mapping[str, str] | None = None
) -> Service:
    """Return the admin service for these brokers and this control database, not started."""
    port = port or free_port()
    variables = {
        "ONRAMP_ADMIN_HOST": LOOPBACK,
        "ONRAMP_ADMIN_PORT": str(port),
        "ONRAMP_ADMIN_DSN": dsn,
        "ONRAMP_KAFKA_BOOTSTRAP": bootstrap,
        **(env or {}),
    }
    return Service(_command("admin", "services.admin", log, variables), port, ADMIN_READY_SECONDS)


def tracer(
    *,
    gateway: str,
    writer: str,
    bootstrap: str,
    dsn: str,
    log: Path,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Service:
    """Return the tracer for these services and this database, not started; it is ready when one landed."""
    port = port or free_port()
    variables = {
        "ONRAMP_GATEWAY_URLS": gateway,
        "ONRAMP_WRITER_URLS": writer,
        "ONRAMP_WRITER_DSN": dsn,
        "ONRAMP_KAFKA_BOOTSTRAP": bootstrap,
        "ONRAMP_TRACER_HOST": LOOPBACK,
        "ONRAMP_TRACER_PORT": str(port),
        "ONRAMP_TRACER_FILE": str(log.with_name("tracers.jsonl")),
        **(env or {}),
    }
    return Service(_command("tracer", "services.tracer", log, variables), port, TRACER_READY_SECONDS)


def transform(
    *,
    bootstrap: str,
    dsn: str,
    log: Path,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Service:
    """Return the transform service for these brokers and the lookups' database, not started."""
    port = port or free_port()
    variables = _for_spark(bootstrap, dsn) | {"ONRAMP_TRANSFORM_HTTP_PORT": str(port), **(env or {})}
    return Service(_command("transform", "services.transform", log, variables), port, WRITER_READY_SECONDS)


def lake(
    *,
    bootstrap: str,
    folder: Path,
    log: Path,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Service:
    """Return the lake service for these brokers, with all event types in `folder`, not started."""
    port = port or free_port()
    variables = _for_spark(bootstrap) | {
        "ONRAMP_LAKE_URL": str(folder),
        "ONRAMP_LAKE_ALL": "true",
        "ONRAMP_LAKE_HTTP_PORT": str(port),
        **(env or {}),
    }
    return Service(_command("lake", "services.lake", log, variables), port, WRITER_READY_SECONDS)


def compaction(
    *, bootstrap: str, folder: Path, log: Path, port: int | None = None, env: Mapping[str, str] | None = None
) -> Service:
    """Return the service that compacts the tables in `folder`, not started."""
    port = port or free_port()
    variables = {
        "ONRAMP_KAFKA_BOOTSTRAP": bootstrap,
        "ONRAMP_LAKE_URL": str(folder),
        "ONRAMP_COMPACTION_HTTP_PORT": str(port),
        **(env or {}),
    }
    return Service(
        _command("compaction", "services.lake.compaction", log, variables), port, WRITER_READY_SECONDS
    )


def _for_spark(bootstrap: str, dsn: str = "") -> dict[str, str]:
    """Return the variables of a service whose driver starts Spark."""
    return {
        "ONRAMP_KAFKA_BOOTSTRAP": bootstrap,
        **({"ONRAMP_WRITER_DSN": dsn} if dsn else {}),
        # Spark reads JAVA_HOME first, which may name a Java that Spark cannot use.
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def _command(name: str, module: str, log: Path, variables: Mapping[str, str]) -> Command:
    return Command(
        name=name,
        argv=[sys.executable, "-m", module],
        log=log,
        env={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **variables},
        cwd=ROOT,
    )
