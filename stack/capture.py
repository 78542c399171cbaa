"""What captures sources on this machine: Kafka Connect, the agent and the modeler."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from shared.registry.log_registry import LogRegistry
from shared.registry.opened import open_log
from shared.registry.sources import PASSWORD_SUFFIX
from shared.settings import KafkaSettings, RegistrySettings
from stack import services
from stack.connect import Connect
from stack.part_process import PartProcess, answers_ok
from stack.ports import free_port
from stack.processes import Child, Command, wait_for

_HEALTHY_SECONDS: Final = 60.0


def source_variables(bootstrap: str) -> list[str]:
    """Return the variables of DSNs that the sources of the registry in Kafka name; none without sources."""
    registry = LogRegistry(open_log(RegistrySettings(), KafkaSettings(bootstrap=bootstrap)))
    try:
        registry.refresh()
        sources = registry.snapshot().sources if registry.is_read else {}
        return sorted({source.dsn_env for source in sources.values()})
    finally:
        registry.close()


class Capture:
    """The three of them, started in the order in which they need each other; ready is not yet in sync."""

    def __init__(
        self, data_dir: Path, bootstrap: str, variables: Iterable[str], *, env: Mapping[str, str]
    ) -> None:
        """Describe them; nothing runs before `start`.

        Args:
            data_dir: where their logs are.
            bootstrap: the brokers.
            variables: of the sources' DSNs; passwords in them are given to Kafka Connect.
            env: how databases and the registry are reached, as the writer is told; DSNs of sources may be
                there instead of in our own environment.
        """
        self._logs = data_dir / "logs"
        self._connect = Connect(
            data_dir / "connect",
            bootstrap,
            port=free_port(),
            passwords=_passwords(variables, {**os.environ, **env}),
            security=KafkaSettings(bootstrap=bootstrap).security,
        )
        self._env = {"ONRAMP_KAFKA_BOOTSTRAP": bootstrap, **env}
        self._agent = _Program("agent", "services.elt.agent", port=free_port())
        self._modeler = _Program("modeler", "services.elt.modeler")

    @property
    def agent(self) -> str:
        """The agent's address."""
        return f"http://127.0.0.1:{self._agent.port}"

    @property
    def children(self) -> list[Child]:
        """Their processes."""
        return [child for part in (self._connect, self._agent, self._modeler) for child in part.children]

    def start(self) -> None:
        """Start them."""
        self._connect.start()
        settings = {
            "ONRAMP_AGENT_CONNECT_URL": self._connect.url,
            "ONRAMP_AGENT_HTTP_PORT": str(self._agent.port),
        }
        self._agent.start(self._logs, {**self._env, **settings})
        self._modeler.start(self._logs, self._env)

    def wait_ready(self) -> None:
        """Wait until Kafka Connect takes connectors and the agent answers.

        Raises:
            StackError: one ended or the time ran out; with the end of its log.
        """
        self._connect.wait_ready()
        self._agent.wait_healthy()

    def check(self) -> None:
        """Raise if one has ended by itself."""
        for part in (self._connect, self._agent, self._modeler):
            part.check()

    def stop(self) -> None:
        """Stop them, those first that others do not need."""
        for part in (self._modeler, self._agent, self._connect):
            if part.children:
                part.stop()


class _Program(PartProcess):
    """A service of ours that nobody waits for."""

    def __init__(self, name: str, module: str, *, port: int = 0) -> None:
        super().__init__(f"the {name}")
        self._module = module
        self._short = name
        self.port = port

    def start(self, logs: Path, env: Mapping[str, str]) -> None:
        """Start it."""
        variables = {"PYTHONPATH": str(services.ROOT), "PYTHONUNBUFFERED": "1", **env}
        argv = [sys.executable, "-m", self._module]
        log = logs / f"{self._short}.log"
        self._run(Command(name=self._short, argv=argv, log=log, env=variables, cwd=services.ROOT))

    def wait_healthy(self) -> None:
        """Wait until it answers."""
        wait_for(
            lambda: answers_ok(self.port, "/healthz"),
            self._started(),
            _HEALTHY_SECONDS,
            waiting_for=f"port {self.port} does not answer /healthz",
        )


def _passwords(variables: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return what Kafka Connect's environment must have of the sources' passwords."""
    return {
        name + PASSWORD_SUFFIX: env.get(name + PASSWORD_SUFFIX) or _password_in(env.get(name, ""))
        for name in variables
    }


def _password_in(dsn: str) -> str:
    """Return the password in a DSN; none for what is no DSN, which the agent says."""
    import psycopg2  # noqa: PLC0415 - needs the `local` extra
    from psycopg2.extensions import parse_dsn  # noqa: PLC0415

    try:
        return str(parse_dsn(dsn).get("password", ""))
    except psycopg2.ProgrammingError:
        return ""
