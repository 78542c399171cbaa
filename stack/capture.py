"""The processes that capture sources on this machine: Kafka Connect, the agent and the merger."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from shared.postgres.source_dsns import SourceDsns
from shared.settings import KafkaSettings
from stack import services, source_secrets
from stack.connect import Connect
from stack.part_process import PartProcess, answers_ok
from stack.ports import free_port
from stack.private_files import private_folder
from stack.processes import Child, Command, wait_for

_HEALTHY_SECONDS: Final = 60.0


class Capture:
    """The three processes, started in the order of their dependencies; ready does not mean in sync."""

    def __init__(
        self, data_dir: Path, bootstrap: str, variables: Iterable[str], *, env: Mapping[str, str]
    ) -> None:
        """Describe them; nothing runs before `start`.

        Args:
            data_dir: where their logs are.
            bootstrap: the brokers.
            variables: of the sources' DSNs; those in the environment are stored at the start, for the agent
                and Kafka Connect, and for later runs.
            env: how databases and the registry are reached, as in the writer settings; DSNs of sources may be
                there instead of in our own environment.
        """
        self._data_dir = data_dir
        self._logs = data_dir / "logs"
        self._given = SourceDsns(env={**os.environ, **env})
        self._variables = list(variables)
        self._secrets = source_secrets.folder_of(data_dir)
        self._connect = Connect(
            data_dir / "connect",
            bootstrap,
            port=free_port(),
            secrets=self._secrets,
            security=KafkaSettings(bootstrap=bootstrap).security,
        )
        self._env = {"ONRAMP_KAFKA_BOOTSTRAP": bootstrap, **env}
        self._agent = _Program("agent", "services.cdc.agent", port=free_port())
        self._merger = _Program("merger", "services.cdc.merger")

    @property
    def agent(self) -> str:
        """The agent's address."""
        return f"http://127.0.0.1:{self._agent.port}"

    @property
    def children(self) -> list[Child]:
        """The processes of all three."""
        return [child for part in (self._connect, self._agent, self._merger) for child in part.children]

    def start(self) -> None:
        """Start the processes."""
        private_folder(self._secrets)
        for variable in self._variables:
            self._keep(variable)
        self._connect.start()
        settings = {
            "ONRAMP_AGENT_DSN_FOLDER": str(self._secrets),
            "ONRAMP_AGENT_CONNECT_URL": self._connect.url,
            "ONRAMP_AGENT_HTTP_PORT": str(self._agent.port),
        }
        self._agent.start(self._logs, {**self._env, **settings})
        self._merger.start(self._logs, self._env)

    def add(self, variables: Iterable[str]) -> None:
        """Store the DSNs of sources that were added since; DSNs that were given explicitly have priority."""
        for variable in variables:
            if not SourceDsns(self._secrets, env={}).find(variable):
                self._keep(variable)

    def _keep(self, variable: str) -> None:
        if dsn := self._given.find(variable):
            source_secrets.keep(self._data_dir, variable, dsn)

    def wait_ready(self) -> None:
        """Wait until Kafka Connect accepts connectors and the agent answers.

        Raises:
            StackError: a process ended or the time ran out; with the end of its log.
        """
        self._connect.wait_ready()
        self._agent.wait_healthy()

    def check(self) -> None:
        """Raise if a process has ended by itself."""
        for part in (self._connect, self._agent, self._merger):
            part.check()

    def stop(self) -> None:
        """Stop the processes in the reverse order of their dependencies."""
        for part in (self._merger, self._agent, self._connect):
            if part.children:
                part.stop()


class _Program(PartProcess):
    """A service process with a health port."""

    def __init__(self, name: str, module: str, *, port: int = 0) -> None:
        super().__init__(f"the {name}")
        self._module = module
        self._short = name
        self.port = port

    def start(self, logs: Path, env: Mapping[str, str]) -> None:
        """Start the process."""
        variables = {"PYTHONPATH": str(services.ROOT), "PYTHONUNBUFFERED": "1", **env}
        argv = [sys.executable, "-m", self._module]
        log = logs / f"{self._short}.log"
        self._run(Command(name=self._short, argv=argv, log=log, env=variables, cwd=services.ROOT))

    def wait_healthy(self) -> None:
        """Wait until the process answers."""
        wait_for(
            lambda: answers_ok(self.port, "/healthz"),
            self._started(),
            _HEALTHY_SECONDS,
            waiting_for=f"port {self.port} does not answer /healthz",
        )
