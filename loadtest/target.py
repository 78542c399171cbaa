"""The target of the load: an embedded stack of its own, or the gateway at a URL.

With Kafka's address and a database's DSN a run is verified and measured to the row; a URL
alone is loaded and its answers are measured.
"""

import argparse
import fcntl
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, ConfigResource

from shared.settings import KafkaSettings
from stack.dev_key import operator_key
from stack.interrupts import Interrupts
from stack.plan import Plan
from stack.ports import LOOPBACK, free_port
from stack.report import Silent
from stack.up import Stack

ROOT: Final = Path(__file__).resolve().parent.parent
_DATA: Final = ROOT / ".onramp" / "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The gateway's address, and the database where its rows land."""

    url: str
    api_key: str = ""
    ca_file: str = ""
    """A file with the issuer of the gateway's certificate; empty: the issuers that this machine trusts."""
    bootstrap: str = ""
    dsn: str = ""
    admin: str = ""
    operator_key: str = ""
    """The key of an operator who may do everything; empty: none is known."""
    database: str = "onramp"
    syslog: tuple[str, int] | None = None
    brokers: int = 0
    """0: unknown, it is not ours."""
    gateways: int = 0
    slots: int = 0
    """The gateway's processes and the writer's executor slots; 0: unknown."""
    processes: Mapping[str, int] = field(default_factory=dict)
    """Process ids on this machine by name, each the head of a family."""

    @property
    def verifiable(self) -> bool:
        """Whether the target has a database to verify."""
        return bool(self.bootstrap and self.dsn)

    @property
    def described(self) -> str:
        """A description for a report."""
        if not self.processes:
            return f"{self.url}, not started by this run"
        kafka = "one broker" if self.brokers == 1 else f"{self.brokers} brokers, replication {self.brokers}"
        return f"embedded stack on this machine: Kafka ({kafka}), Postgres, gateway, writer"


@contextmanager
def embedded(
    brokers: int,
    *,
    gateways: int = 1,
    slots: int = 2,
    keep: bool = False,
    lake: bool = False,
    gateway_env: Mapping[str, str] | None = None,
) -> Iterator[Target]:
    """An empty stack, stopped and (unless to `keep`) removed at the end; it runs as `onramp up` does."""
    _remove(_DATA)
    port = free_port()
    plan = Plan(
        data_dir=_DATA,
        brokers=brokers,
        gateway_env={
            "ONRAMP_INGEST_SYSLOG_TCP_PORT": str(port),
            "ONRAMP_INGEST_WORKERS": str(gateways),
            **(gateway_env or {}),
        },
        writer_env={"ONRAMP_WRITER_MASTER": f"local[{slots}]"},
        lake=lake,
    )
    interrupts = Interrupts()
    stack = Stack(plan, Silent(), interrupts)
    with interrupts.listen():
        try:
            stack.start()
            with interrupts.allowed():
                yield Target(
                    url=stack.gateway,
                    api_key=stack.api_key,
                    bootstrap=stack.bootstrap,
                    dsn=stack.dsn,
                    admin=stack.admin,
                    operator_key=operator_key(_DATA),
                    syslog=(LOOPBACK, port),
                    brokers=brokers,
                    gateways=gateways,
                    slots=slots,
                    processes=stack.processes,
                )
        finally:
            stack.stop()
            if not keep:
                for part in ("kafka", "postgres", "segments", "lake"):  # the logs stay: they are small
                    shutil.rmtree(_DATA / part, ignore_errors=True)


def promise(bootstrap: str) -> dict[str, int]:
    """Return the minimum of replicas and in-sync replicas over all topics, as Kafka reports them."""
    kafka = admin(bootstrap)
    topics = kafka.list_topics(timeout=10).topics
    asked = kafka.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics])
    return {
        "replicas": min(len(p.replicas) for topic in topics.values() for p in topic.partitions.values()),
        "min_insync": min(int(answer.result(10)["min.insync.replicas"].value) for answer in asked.values()),
    }


def admin(bootstrap: str) -> AdminClient:
    """Return an admin client that logs nothing."""
    return AdminClient({**way_to(bootstrap), "log_level": 3})


def way_to(bootstrap: str) -> dict[str, str]:
    """Return the options of a librdkafka client; TLS and login are the environment's, as for the services."""
    return KafkaSettings(bootstrap=bootstrap).brokers.librdkafka()


def _remove(folder: Path) -> None:
    """Remove an earlier run's data, not that of one that is running."""
    if not folder.exists():
        return
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"Another run uses {folder}: wait for its end.")
    shutil.rmtree(folder)


@contextmanager
def elsewhere(args: argparse.Namespace) -> Iterator[Target]:
    """The target that the command line names."""
    host, _, port = (args.syslog or "").rpartition(":")
    yield Target(
        url=args.url,
        api_key=args.api_key or "",
        ca_file=str(args.ca_file.absolute()) if args.ca_file else "",
        bootstrap=args.kafka or "",
        dsn=args.dsn or "",
        database=args.database,
        syslog=(host, int(port)) if host else None,
    )
