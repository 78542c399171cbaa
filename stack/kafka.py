"""Apache Kafka's own broker on this machine, as one KRaft process (or three).

The jars are the released ones; what the usual distribution does with shell scripts is done
here: a settings file, a formatted data folder, a Java process. Ports may change from start
to start, the data stays.
"""

import base64
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from stack import kafka_probe
from stack.errors import StackError
from stack.jars import ensure_jars
from stack.java import find_java
from stack.kafka_node import Listener, Node, format_node, settings_of
from stack.ports import LOOPBACK, free_ports
from stack.processes import Child, Command, wait_for

READY_SECONDS = 120.0


class Kafka:
    """A cluster of one or three brokers on loopback.

    One broker: replication factor 1, for laptops and most tests. Three: replication 3 with
    `min.insync.replicas` 2, for tests of production settings.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        brokers: int = 1,
        *,
        heap_mb: int = 512,
        listeners: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        jars: Callable[[], list[Path]] = lambda: ensure_jars("broker"),
    ) -> None:
        """Describe the cluster; nothing is written or started before `start`.

        Args:
            data_dir: where logs and settings live; reused when it has data.
            port: the first broker's port, None for a free one.
            brokers: 1 or 3.
            heap_mb: each broker's Java heap.
            listeners: further ones in addition to the plain one: name to security protocol.
            settings: of the brokers, in addition to our own.
            jars: returns the class path; called at the first start.
        """
        if brokers not in (1, 3):
            raise ValueError(f"A cluster of {brokers} brokers is not supported: 1 or 3.")
        self._data_dir = data_dir.absolute()
        self._wanted_port = port
        self._brokers = brokers
        self._heap_mb = heap_mb
        self._listeners = dict(listeners or {})
        self._settings = dict(settings or {})
        self._jars = jars
        self._nodes: list[Node] = []
        self._children: list[Child] = []

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, for `bootstrap.servers`.

        Raises:
            StackError: the ports are chosen by `start`.
        """
        if not self._nodes:
            raise StackError("Kafka has no address before it is started.")
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self._nodes)

    def bootstrap_of(self, listener: str) -> str:
        """Return the brokers' addresses for clients of one of the further listeners."""
        ports = [each.port for node in self._nodes for each in node.listeners if each.name == listener]
        return ",".join(f"{LOOPBACK}:{port}" for port in ports)

    @property
    def promise(self) -> dict[str, str]:
        """The settings of our services that spread their topics over all of these brokers."""
        if self._brokers == 1:
            return {}  # The settings' own defaults fit, and an operator's choice has priority.
        return {
            "ONRAMP_KAFKA_REPLICATION": str(self._brokers),
            "ONRAMP_KAFKA_MIN_INSYNC": str(self._brokers - 1),
        }

    @property
    def children(self) -> list[Child]:
        """The brokers' processes, in the order of their ids."""
        return list(self._children)

    @property
    def pid(self) -> int:
        """The process id of the first broker."""
        return self._child(0).pid

    def start(self) -> None:
        """Format the data folder if it is new, then start every broker."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        if not self._nodes:
            self._nodes = self._lay_out()
        java = find_java()
        class_path = os.pathsep.join(map(str, self._jars()))
        cluster = self._cluster_id()
        self._children = []
        for node in self._nodes:
            node.settings_file.parent.mkdir(parents=True, exist_ok=True)
            node.settings_file.write_text(settings_of(node, self._nodes), "utf-8")
            format_node(node, java, class_path, cluster)
            child = Child(self._command(node, java.executable, class_path))
            self._children.append(child)
            child.start()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until every broker says that all of them are in the cluster.

        Raises:
            StackError: one ended or the time ran out; with the end of its log.
        """
        expected = {node.id for node in self._nodes}
        for node, child in zip(self._nodes, self._children, strict=True):

            def joined(port: int = node.port) -> bool:
                return kafka_probe.brokers_up(LOOPBACK, port) == expected

            wait_for(joined, child, seconds, waiting_for="it does not answer metadata requests")

    def check(self) -> None:
        """Raise if a broker has ended by itself."""
        for child in self._children:
            child.check()

    def stop(self) -> None:
        """Stop the brokers; the data and the ports stay for the next `start`."""
        # All brokers get the signal to stop before the first wait: the last one of a cluster could not hand
        # over its partitions and would wait for its full grace.
        for child in self._children:
            child.ask_to_stop()
        for child in self._children:
            child.stop()

    def kill(self, broker: int | None = None) -> None:
        """End one broker (counted from 0) or all of them as a crash would."""
        for child in self._children if broker is None else [self._child(broker)]:
            child.kill()

    def _child(self, index: int) -> Child:
        if not self._children:
            raise StackError("Kafka has not been started.")
        return self._children[index]

    def _lay_out(self) -> list[Node]:
        brokers = len(list(self._data_dir.glob("broker-*")))
        if brokers not in (0, self._brokers):
            # The quorum's log names its voters: other brokers would wait for a majority forever.
            raise StackError(
                f"{self._data_dir} holds a Kafka of {brokers} broker(s), asked for are {self._brokers}.",
                fix="Ask for as many as it holds, or use another folder with --data-dir.",
            )
        per_broker = len(self._listeners)
        ports, listener_ports = free_ports(2 * self._brokers), free_ports(per_broker * self._brokers)
        if self._wanted_port is not None:
            ports[0] = self._wanted_port
        return [
            Node(
                id=number + 1,
                port=ports[number],
                controller_port=ports[self._brokers + number],
                folder=self._data_dir / f"broker-{number + 1}",
                listeners=tuple(
                    Listener(name, protocol, listener_ports[number * per_broker + index])
                    for index, (name, protocol) in enumerate(self._listeners.items())
                ),
                more=self._settings,
            )
            for number in range(self._brokers)
        ]

    def _cluster_id(self) -> str:
        """Return the cluster's id, which the first start creates: data of another cluster is refused."""
        path = self._data_dir / "cluster-id"
        if not path.exists():
            # In Kafka's format of a UUID: 22 characters. Kafka refuses a leading dash.
            made_up = "-"
            while made_up.startswith("-"):
                made_up = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            path.write_text(made_up, "utf-8")
        return path.read_text("utf-8").strip()

    def _command(self, node: Node, java: Path, class_path: str) -> Command:
        log4j = Path(__file__).with_name("kafka_log4j2.properties")
        name = "kafka" if self._brokers == 1 else f"kafka-{node.id}"
        argv = [
            str(java),
            f"-Xms{self._heap_mb // 2}m",
            f"-Xmx{self._heap_mb}m",
            # The broker's own scripts use these: short pauses matter more than throughput.
            "-XX:+UseG1GC",
            "-XX:MaxGCPauseMillis=20",
            # A broker without memory must end, not remain half alive.
            "-XX:+ExitOnOutOfMemoryError",
            f"-Dlog4j2.configurationFile={log4j}",
            "-cp",
            class_path,
            "kafka.Kafka",
            str(node.settings_file),
        ]
        return Command(name=name, argv=argv, log=node.folder / "broker.log", cwd=node.folder)
