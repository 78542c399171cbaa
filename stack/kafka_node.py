"""One broker of the embedded Kafka: its settings file and its formatted data folder."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stack.errors import StackError
from stack.java import Java
from stack.ports import LOOPBACK

_FORMAT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Listener:
    """A further listener of a broker, for clients that use TLS or a password."""

    name: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The ports and data folder of one broker, which is its own controller as well."""

    id: int
    port: int
    controller_port: int
    folder: Path
    listeners: tuple[Listener, ...] = ()
    #: Settings of this cluster only.
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings_file(self) -> Path:
        """The path of the broker's properties file, written at each start because ports may change."""
        return self.folder / "server.properties"

    @property
    def log_dir(self) -> Path:
        """The folder of the topics' data."""
        return self.folder / "data"


def settings_of(node: Node, nodes: list[Node]) -> str:
    """Return the text of a broker's properties file."""
    voters = ",".join(f"{each.id}@{LOOPBACK}:{each.controller_port}" for each in nodes)
    replicas = len(nodes)
    in_sync = 1 if replicas == 1 else replicas - 1
    listeners = [Listener("PLAINTEXT", "PLAINTEXT", node.port), *node.listeners]
    advertised = ",".join(f"{each.name}://{LOOPBACK}:{each.port}" for each in listeners)
    protocols = ",".join(f"{each.name}:{each.protocol}" for each in listeners)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{advertised},CONTROLLER://{LOOPBACK}:{node.controller_port}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "log.dirs": node.log_dir,
        # Onramp creates topics with explicit settings; a metadata request must not create one.
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        # Tests and laptops have one consumer per group: waiting for more costs 3 s a start.
        "group.initial.rebalance.delay.ms": 0,
        # The default of 50 costs files and start-up time without a use on a laptop.
        "offsets.topic.num.partitions": 3,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 3,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A week, as Kafka's default, but with a size limit for a laptop.
        "log.retention.hours": 168,
        "log.retention.bytes": 2 * 1024**3,
        "log.segment.bytes": 256 * 1024**2,
        # A killed broker joins again after its session has timed out (default: 9 s).
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
        # By default the controller writes an empty record twice a second: a fifth of an idle broker's CPU.
        "metadata.max.idle.interval.ms": 0,
        "num.network.threads": 2,
        "num.io.threads": 4,
        # Batches of 10 MB bodies must fit (the gateway's own limit is lower).
        "message.max.bytes": 10 * 1024**2,
        "replica.fetch.max.bytes": 10 * 1024**2,
        **node.more,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def format_node(node: Node, java: Java, class_path: str, cluster: str) -> None:
    """Format the data folder for this cluster, unless it is formatted.

    Raises:
        StackError: the broker's tool failed; with its output.
    """
    if (node.log_dir / "meta.properties").exists():
        return
    answer = subprocess.run(
        [
            str(java.executable),
            "-Xmx256m",
            # A tool that runs for a second is not worth an optimising compiler.
            "-XX:TieredStopAtLevel=1",
            "-cp",
            class_path,
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            cluster,
            "--config",
            str(node.settings_file),
        ],
        capture_output=True,
        text=True,
        timeout=_FORMAT_SECONDS,
        check=False,
    )
    if answer.returncode != 0:
        raise StackError(
            f"Kafka's data folder {node.log_dir} could not be formatted.",
            fix="If it holds data of another cluster, 'make clean' removes it.",
            log_tail=(answer.stdout + answer.stderr).strip(),
        )
