"""What is put under load: an embedded stack of its own, or whatever is at a URL.

With Kafka's address and a database's DSN a run is verified and measured to the row; a URL
alone is loaded and its answers are measured.
"""

import argparse
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stack.interrupts import Interrupts
from stack.ports import LOOPBACK, free_port
from stack.report import Silent
from stack.up import Plan, Stack

ROOT: Final = Path(__file__).resolve().parent.parent
_DATA: Final = ROOT / ".onramp" / "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to send, and where to look for what became of it."""

    url: str
    api_key: str = ""
    bootstrap: str = ""
    dsn: str = ""
    database: str = "onramp"
    syslog: tuple[str, int] | None = None
    brokers: int = 0
    """0: unknown, it is not ours."""
    processes: Mapping[str, int] = field(default_factory=dict)
    """Process ids on this machine by name, each the head of a family."""

    @property
    def verifiable(self) -> bool:
        """Whether there is somewhere to look."""
        return bool(self.bootstrap and self.dsn)

    @property
    def described(self) -> str:
        """In words, for a report."""
        if not self.processes:
            return f"{self.url}, not started by this run"
        kafka = "one broker" if self.brokers == 1 else f"{self.brokers} brokers, replication {self.brokers}"
        return f"embedded stack on this machine: Kafka ({kafka}), Postgres, gateway, writer"


@contextmanager
def embedded(brokers: int, *, keep: bool = False) -> Iterator[Target]:
    """An empty stack, stopped and (unless to `keep`) removed at the end; it runs as `onramp up` does."""
    shutil.rmtree(_DATA, ignore_errors=True)
    port = free_port()
    plan = Plan(data_dir=_DATA, brokers=brokers, gateway_env={"ONRAMP_INGEST_SYSLOG_TCP_PORT": str(port)})
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
                    syslog=(LOOPBACK, port),
                    brokers=brokers,
                    processes=stack.processes,
                )
        finally:
            stack.stop()
            if not keep:
                shutil.rmtree(_DATA / "kafka", ignore_errors=True)
                shutil.rmtree(_DATA / "postgres", ignore_errors=True)


@contextmanager
def elsewhere(given: argparse.Namespace) -> Iterator[Target]:
    """What the command line names."""
    host, _, port = (given.syslog or "").rpartition(":")
    yield Target(
        url=given.url,
        api_key=given.api_key or "",
        bootstrap=given.kafka or "",
        dsn=given.dsn or "",
        database=given.database,
        syslog=(host, int(port)) if host else None,
    )
