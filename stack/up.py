"""The whole stack: its parts are started in order of dependencies, and stopped in reverse order.

Kafka and Postgres have no dependencies; the gateway needs Kafka; the writer needs both; Prometheus scrapes
all of them. Prometheus stops first, then the gateway, so that no new events arrive, then the writer, then
Kafka and Postgres.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shared import wire
from shared.registry.sources import Source
from stack import services, source_demo, source_secrets
from stack.addresses import Addresses, forget, note
from stack.capture import Capture
from stack.data_lock import DataLock
from stack.dev_key import dev_key, operator_key
from stack.errors import StackError
from stack.interrupts import Interrupts
from stack.jars import ensure_jars
from stack.kafka import Kafka
from stack.optional_parts import OptionalParts
from stack.part_process import Part
from stack.plan import Plan
from stack.ports import LOOPBACK, UsualPorts
from stack.postgres import Postgres
from stack.prometheus import (
    JOB_AGENT,
    JOB_COMPACTION,
    JOB_GATEWAY,
    JOB_LAKE,
    JOB_TRACER,
    JOB_TRANSFORM,
    JOB_WRITER,
    PORT,
    Programs,
    Prometheus,
    ensure_programs,
)
from stack.registry_follower import RegistryFollower
from stack.report import Report


class Stack:
    """Kafka, Postgres, gateway and writer on this machine."""

    def __init__(
        self,
        plan: Plan,
        report: Report,
        interrupts: Interrupts,
        before_services: Callable[[], None] = lambda: None,
    ) -> None:
        """`start` calls `before_services` when Kafka and Postgres are ready."""
        self._before_services = before_services
        self._plan = plan
        self._report = report
        self._interrupts = interrupts
        self._parts: list[tuple[str, Part]] = []
        self._lock = DataLock(plan.data_dir)
        self._ports = UsualPorts()
        self._shared_env: dict[str, str] = {}
        self._postgres_port = plan.postgres_port
        self._postgres: Postgres | None = None
        self.bootstrap = plan.bootstrap or ""
        self.dsn = plan.dsn or ""
        self.gateway = ""
        self.writer = ""
        self.admin = ""
        self.tracer = ""
        self.transform = ""
        self._transform_port = plan.transform_port
        self.lake = ""
        self.prometheus = ""
        self.source = ""
        self._agent = ""
        self._compaction = ""
        self._named: RegistryFollower | None = None
        self._capture: Capture | None = None
        self._watching: Programs | None = None
        self._optional = OptionalParts(report)
        self.api_key = ""

    @property
    def data_dir(self) -> Path:
        """The folder of data, logs and the development key."""
        return self._plan.data_dir

    @property
    def processes(self) -> dict[str, int]:
        """The process ids of running parts, by name; each is the head of a family."""
        return {child.name: child.pid for _, part in self._parts for child in part.children}

    @property
    def owns_postgres(self) -> bool:
        """Whether the database is the embedded one."""
        return self._plan.dsn is None

    def start(self) -> None:
        """Start every part and wait until an event has become a row.

        Raises:
            StackError: a part could not be started or did not become ready.
            Stopped: a stop was requested meanwhile.
        """
        self._lock.take()
        self._get_jars()
        if self._plan.prometheus:
            # Three scrapes of this Prometheus.
            self._shared_env |= dict.fromkeys(
                ("ONRAMP_INGEST_NEW_COUNTER_SECONDS", "ONRAMP_WRITER_NEW_COUNTER_SECONDS"), "15"
            )
            self._find_prometheus()
        self._start_kafka_and_postgres()
        if self._plan.source_demo:
            with self._step("Making a second database, of flights and what belongs to them"):
                source_demo.make(self._postgres, self.bootstrap)
        self._before_services()
        self._start_services()
        if self._plan.lake:
            self._start_lake()
        self._start_admin()
        self.follow_sources()
        self.follow_transforms()
        if self._watching is not None:
            self._start_prometheus(self._watching)
        self._note_addresses()

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources that the registry names."""
        return self._named.all if self._named is not None else {}

    def follow_sources(self) -> Mapping[str, Source]:
        """Return the sources that the registry names since the last call; the first of all starts capturing.

        Raises:
            StackError: what captures them could not be started.
        """
        if self._named is None:
            self._named = RegistryFollower(self.bootstrap)
        with self._interrupts.allowed():
            new = self._named.news()
        if new and self._capture is None:
            self._start_capture()
        elif self._capture is not None:
            self._capture.add(source.dsn_env for source in new.values())
        return new

    def follow_transforms(self) -> str:
        """Start the transform service when the registry names the first one; return its URL then.

        Raises:
            StackError: the service could not be started.
        """
        if self.transform or self._named is None or not self._named.has_transforms:
            return ""
        self._start_transform()
        self._note_addresses()
        return self.transform

    def _note_addresses(self) -> None:
        """Store the addresses for other commands."""
        addresses = Addresses(
            kafka=self.bootstrap,
            gateway=self.gateway,
            postgres_port=self._postgres_port,
            writer=self.writer,
            admin=self.admin,
            tracer=self.tracer,
            **({"transform": self.transform} if self.transform else {}),
            **({"lake": self.lake} if self.lake else {}),
        )
        note(self.data_dir, addresses)

    def check(self) -> None:
        """Raise if a required part has ended by itself; the message shows the end of its log."""
        self._optional.report_ended()
        for _, part in self._parts:
            if part not in self._optional:
                part.check()

    def crash(self) -> StackError | None:
        """Return the crash of a part, if there is one: it explains the other failure."""
        try:
            self.check()
        except StackError as error:
            return error
        return None

    def stop(self) -> None:
        """Stop the started parts in reverse order, also after one that fails to stop."""
        failures: list[Exception] = []
        if self._named is not None:
            self._named.close()
        while self._parts:
            name, part = self._parts.pop()
            with self._report.step(f"Stopping {name}"):
                try:
                    part.stop()
                except Exception as error:  # noqa: BLE001 - raised below, when all are stopped
                    failures.append(error)
        self._ports.close()
        if self._lock.is_locked:
            forget(self.data_dir)
            self._lock.release()
        if failures:
            raise ExceptionGroup("Not every part could be stopped", failures)

    def _get_jars(self) -> None:
        with self._step("Checking the jars of Kafka"):
            ensure_jars(
                "broker", progress=lambda done, of: self._report.progress(f"downloaded {done} of {of}")
            )

    def _start_kafka_and_postgres(self) -> None:
        plan = self._plan
        if plan.bootstrap is not None and plan.dsn is not None:
            return
        with self._report.step("Starting Kafka and Postgres"):
            started: list[Part] = []
            if plan.bootstrap is None:
                port = self._port("Kafka", plan.kafka_port)
                kafka = Kafka(plan.data_dir / "kafka", port, plan.brokers)
                self._shared_env |= kafka.promise
                started.append(self._launch("Kafka", kafka))
                self.bootstrap = kafka.bootstrap
            if plan.dsn is None:
                self._postgres_port = self._port("Postgres", plan.postgres_port)
                postgres = Postgres(plan.data_dir / "postgres", self._postgres_port)
                started.append(self._launch("Postgres", postgres))
                self._postgres = postgres
                self.dsn = postgres.dsn
            self._wait_ready(started)

    def _start_services(self) -> None:
        plan, logs = self._plan, self._plan.data_dir / "logs"
        self.api_key = dev_key(plan.data_dir)
        writer = services.writer(
            bootstrap=self.bootstrap,
            dsn=self.dsn,
            log=logs / "writer.log",
            port=self._port("The writer", plan.writer_port),
            env={**self._shared_env, **plan.writer_env},
        )
        gateway = services.gateway(
            bootstrap=self.bootstrap,
            log=logs / "gateway.log",
            port=self._port("The gateway", plan.gateway_port),
            env={"ONRAMP_INGEST_DEV_KEY": self.api_key, **self._shared_env, **plan.gateway_env},
        )
        self.writer, self.gateway = writer.url, gateway.url
        with self._report.step("Starting the gateway and the writer"):
            # Both start at once: the writer takes longest, and the gateway does not need it.
            self._wait_ready([self._launch("the writer", writer), self._launch("the gateway", gateway)])
        self._start_tracer()

    def _start_tracer(self) -> None:
        """Start the tracer, and wait until its first tracer has become a row."""
        plan = self._plan
        # The registry may get its first transform, and with it the service, at any time.
        self._transform_port = self._ports.pick(plan.transform_port)
        tracer = services.tracer(
            gateway=self.gateway,
            writer=self.writer,
            bootstrap=self.bootstrap,
            dsn=self.dsn,
            log=plan.data_dir / "logs" / "tracer.log",
            port=self._port("The tracer", plan.tracer_port),
            env={
                **self._shared_env,
                **plan.writer_env,
                "ONRAMP_TRACER_API_KEY": self.api_key,
                "ONRAMP_TRACER_FILE": str(plan.data_dir / "tracers.jsonl"),
                "ONRAMP_TRACER_TRANSFORM_URLS": f"http://{LOOPBACK}:{self._transform_port}",
                **({"ONRAMP_TRACER_LAKE_TABLE": wire.PROBE_EVENT} if plan.lake else {}),
                **plan.lake_env,
            },
        )
        self.tracer = tracer.url
        with self._report.step("Starting the tracer and waiting for the first tracer's row"):
            self._optional.add("the tracer", self._launch("the tracer", tracer))
            with self._interrupts.allowed():  # the tracer needs the others: it would wait for a crashed one
                tracer.wait_ready(check=self.check)

    def _start_admin(self) -> None:
        """Start the admin service; no other part waits for it."""
        plan = self._plan
        admin = services.admin(
            bootstrap=self.bootstrap,
            dsn=self.dsn,
            log=plan.data_dir / "logs" / "admin.log",
            port=self._port("The admin service", plan.admin_port),
            env={
                "ONRAMP_WRITER_DSN": self.dsn,
                "ONRAMP_ADMIN_DEV_KEY": operator_key(plan.data_dir),
                "ONRAMP_ADMIN_STORE": str(plan.data_dir / "segments"),
                "ONRAMP_ADMIN_DSN_FOLDER": str(source_secrets.folder_of(plan.data_dir)),
                "ONRAMP_GATEWAY_URLS": self.gateway,
                "ONRAMP_WRITER_URLS": self.writer,
                "ONRAMP_TRACER_URLS": self.tracer,
                **({"ONRAMP_LAKE_URLS": f"{self.lake},{self._compaction}"} if self.lake else {}),
                **plan.lake_env,
                **self._shared_env,
                **plan.writer_env,
            },
        )
        self._optional.add("the admin service", self._launch("the admin service", admin))
        self.admin = admin.url

    def _start_transform(self) -> None:
        """Start the transform service; events land without it, so a failure ends no other part."""
        plan = self._plan
        transform = services.transform(
            bootstrap=self.bootstrap,
            dsn=self.dsn,
            log=plan.data_dir / "logs" / "transform.log",
            port=self._noted("The transform service", plan.transform_port, self._transform_port),
            env={**self._shared_env, **plan.writer_env, "ONRAMP_TRANSFORM_TRACERS": "true"},
        )
        self.transform = transform.url
        with self._report.step("Starting the transform service"):
            name = "the transform service"
            self._wait_ready([self._optional.add(name, self._launch(name, transform))])

    def _start_lake(self) -> None:
        """Start the lake and its compaction; a failure ends no other part: events land in Postgres."""
        plan, folder = self._plan, self._plan.lake_folder
        lake = services.lake(
            bootstrap=self.bootstrap,
            folder=folder,
            log=plan.data_dir / "logs" / "lake.log",
            port=self._port("The lake service", plan.lake_port),
            env=self._shared_env,
        )
        compaction = services.compaction(
            bootstrap=self.bootstrap,
            folder=folder,
            log=plan.data_dir / "logs" / "compaction.log",
            port=self._port("The compaction of the lake", plan.compaction_port),
            env=self._shared_env,
        )
        self.lake, self._compaction = lake.url, compaction.url
        with self._report.step("Starting the lake service and its compaction"):
            parts = {"the lake service": lake, "the compaction of the lake": compaction}
            self._wait_ready(
                [self._optional.add(name, self._launch(name, each)) for name, each in parts.items()]
            )

    def _start_capture(self) -> None:
        """Start the capture of sources; landing does not need it, so a failure ends no other part."""
        variables = {source.dsn_env for source in self.sources.values()}
        with self._report.step("Starting Kafka Connect, the agent and the merger for sources"):
            env = {"ONRAMP_WRITER_DSN": self.dsn, **self._shared_env, **self._plan.writer_env}
            if source_demo.DSN_ENV in variables:
                self.source = source_demo.dsn(self._postgres)
                env |= {source_demo.DSN_ENV: self.source} if self.source else {}
            capture = self._capture = Capture(self.data_dir, self.bootstrap, variables, env=env)
            self._agent = capture.agent
            self._optional.add("the capture of sources", capture)
            self._wait_ready([self._launch("the capture of sources", capture)])

    def _find_prometheus(self) -> None:
        with self._step("Looking for Prometheus, or fetching it"):
            self._watching = ensure_programs()

    def _start_prometheus(self, programs: Programs) -> None:
        with self._report.step("Starting Prometheus"):
            targets = {JOB_GATEWAY: self.gateway, JOB_WRITER: self.writer, JOB_TRACER: self.tracer}
            targets |= {JOB_AGENT: self._agent} if self._agent else {}
            targets |= {JOB_TRANSFORM: self.transform} if self.transform else {}
            targets |= {JOB_LAKE: self.lake, JOB_COMPACTION: self._compaction} if self.lake else {}
            prometheus = Prometheus(
                self.data_dir / "prometheus", targets, programs=programs, port=self._port("Prometheus", PORT)
            )
            self._wait_ready([self._optional.add("Prometheus", self._launch("Prometheus", prometheus))])
            self.prometheus = prometheus.url

    def _wait_ready(self, started: list[Part]) -> None:
        with self._interrupts.allowed():
            for part in started:
                part.wait_ready()

    def _launch(self, name: str, part: Part) -> Part:
        """Start a part, after noting it: a part whose start fails half-way must be stopped too."""
        self._parts.append((name, part))
        part.start()
        return part

    def _port(self, name: str, usual: int) -> int:
        return self._noted(name, usual, self._ports.pick(usual))

    def _noted(self, name: str, usual: int, port: int) -> int:
        if port != usual:
            self._report.note(f"Port {usual} is taken: {name} listens on {port} instead.")
        return port

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        """Report a step that a signal may end; outside of such steps a signal is stored."""
        with self._report.step(title), self._interrupts.allowed():
            yield
