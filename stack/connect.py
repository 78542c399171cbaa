"""One worker of Kafka Connect with Debezium's connector for Postgres, on this machine.

Distributed mode with a single worker: connectors, their offsets and their states are topics, so a
worker that was killed continues at its position, on this machine or another.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from shared.kafka_security import CONNECT_ENV, KafkaSecurity, read_secret
from stack.errors import StackError
from stack.jars import ensure_jars
from stack.java import find_java
from stack.part_process import PartProcess, answers_ok
from stack.ports import LOOPBACK, free_port
from stack.processes import Command, wait_for

READY_SECONDS: Final = 120.0
GROUP: Final = "onramp.connect"
_PROVIDERS: Final = "org.apache.kafka.common.config.provider"
_LOG4J: Final = Path(__file__).with_name("connect_log4j2.properties")


class Connect(PartProcess):
    """A Connect worker; its REST interface is on loopback only, because it accepts any configuration."""

    def __init__(
        self,
        data_dir: Path,
        bootstrap: str,
        *,
        host: str = LOOPBACK,
        port: int | None = None,
        replication: int = 1,
        passwords: Mapping[str, str] | None = None,
        heap_mb: int = 192,
        security: KafkaSecurity | None = None,
        secrets: Path | None = None,
    ) -> None:
        """Describe the worker; nothing is written or started before `start`.

        Args:
            data_dir: where its settings and its log live.
            bootstrap: the brokers.
            host: of the REST interface.
            port: of the REST interface, None for a free one.
            replication: copies of its topics.
            passwords: environment variables of the worker. A connector's configuration names one as
                `${env:NAME}`, so that no password is in a topic or in an answer of the REST interface.
            heap_mb: the Java heap.
            security: how its clients and those of its connectors reach the brokers; None for plaintext.
            secrets: a folder of files with passwords, which a configuration names as `${directory:…}`; it is
                read whenever a connector starts.
        """
        super().__init__("Kafka Connect")
        self._dir = data_dir.absolute()
        self._bootstrap = bootstrap
        self._host = host
        self._port = port
        self._replication = replication
        self._passwords = dict(passwords or {})
        self._heap_mb = heap_mb
        self._security = security or KafkaSecurity()
        self._secrets_folder = secrets

    @property
    def url(self) -> str:
        """The address of its REST interface.

        Raises:
            StackError: the port is chosen by `start`.
        """
        if self._port is None:
            raise StackError("Kafka Connect has no address before it is started.")
        return f"http://{self._host}:{self._port}"

    def start(self) -> None:
        """Write its settings and start it.

        Raises:
            SecretError: the password of its Kafka clients cannot be read.
        """
        self._run(self._prepared())

    def replace_process(self) -> NoReturn:
        """Write its settings and become the worker, in the foreground and with output to standard error.

        Raises:
            SecretError: the password of its Kafka clients cannot be read.
        """
        command = self._prepared()
        os.execve(command.argv[0], list(command.argv), {**os.environ, **command.env})  # noqa: S606

    def _prepared(self) -> Command:
        """Write its settings and return its command."""
        self._dir.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port()
        settings = self._settings()
        (self._dir / "worker.properties").write_text(
            # Java's escapes are those of JSON, and Java reads Latin 1.
            "".join(f"{key}={json.dumps(str(value))[1:-1]}\n" for key, value in settings.items()),
            "utf-8",
        )
        return self._command()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until it has read its topics and takes connectors.

        Raises:
            StackError: it ended or the time ran out; with the end of its log.
        """
        wait_for(
            self._is_ready, self._started(), seconds, waiting_for=f"{self.url}/health does not answer 200"
        )

    def _is_ready(self) -> bool:
        return self._port is not None and answers_ok(self._port, "/health")

    def _settings(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self._bootstrap,
            "group.id": GROUP,
            "listeners": self.url,
            "config.storage.topic": f"{GROUP}.configs",
            "offset.storage.topic": f"{GROUP}.offsets",
            "status.storage.topic": f"{GROUP}.status",
            "config.storage.replication.factor": self._replication,
            "offset.storage.replication.factor": self._replication,
            "status.storage.replication.factor": self._replication,
            # The default of 25 is made for thousands of connectors; each costs the broker files and memory.
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "config.providers": "env",
            "config.providers.env.class": f"{_PROVIDERS}.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": f"ONRAMP_SOURCE_.*|{CONNECT_ENV}",
            **self._of_files(),
            # With one worker a restarted process is the same member: waiting for it would cost five minutes.
            "scheduled.rebalance.max.delay.ms": 0,
            # Bounds the records that are sent again after a crash.
            "offset.flush.interval.ms": 1000,
            # Each connector on the class path declares itself: the start scans no 70 jars.
            "plugin.discovery": "service_load",
            "task.shutdown.graceful.timeout.ms": 5000,
            # For the worker itself and for connectors' producers; their admin clients use the worker's
            # settings.
            **{
                f"{client}{key}": value
                for client in ("", "producer.")
                for key, value in self._security.connect().items()
            },
        }

    def _of_files(self) -> dict[str, str]:
        """Return the provider of texts in files (certificate, key, passwords); none without them."""
        files = (self._security.cert_file, self._security.key_file)
        folders = sorted({str(file.parent) for file in files if file})
        folders += [str(self._secrets_folder.absolute())] if self._secrets_folder else []
        if not folders:
            return {}
        return {
            "config.providers": "env,directory",
            "config.providers.directory.class": f"{_PROVIDERS}.DirectoryConfigProvider",
            "config.providers.directory.param.allowed.paths": ",".join(folders),
        }

    def _secrets(self) -> dict[str, str]:
        """Return the variables with passwords, at their current values."""
        file = self._security.password_file
        return self._passwords | ({CONNECT_ENV: read_secret(file)} if file else {})

    def _command(self) -> Command:
        argv = [
            str(find_java().executable),
            f"-Xmx{self._heap_mb}m",
            # One stream of small records: a parallel collector's threads and tables cost more than pauses.
            "-XX:+UseSerialGC",
            # A worker without memory must end, not remain half alive.
            "-XX:+ExitOnOutOfMemoryError",
            f"-Dlog4j2.configurationFile={_LOG4J}",
            "-cp",
            os.pathsep.join(map(str, ensure_jars("connect"))),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self._dir / "worker.properties"),
        ]
        log = self._dir / "connect.log"
        return Command(name="connect", argv=argv, log=log, cwd=self._dir, env=self._secrets())
