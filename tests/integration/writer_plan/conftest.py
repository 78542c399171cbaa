"""Plans over a real Kafka and a real Postgres; their tasks run in this process."""

import io
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from services.writer.observe.job_progress import Progress, read_counts
from services.writer.plan.plan import PlanRequest, try_change
from services.writer.plan.report import Report
from services.writer.settings import WriterSettings
from shared.kafka_read.history import Window
from shared.settings import KafkaSettings
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.inline import Reader
from tests.fixtures.writer import make_topics, produce


class Counted(Progress):
    """Remembers what it wrote, and up to where tasks said that they are."""

    def __init__(self) -> None:
        self.written = io.StringIO()
        super().__init__(self.written)
        self.counted = 0

    @contextmanager
    def following(self, offsets: int) -> Iterator[Path]:
        with super().following(offsets) as folder:
            yield folder
            self.counted = read_counts(folder)


@dataclass
class Ground:
    """One event type of a name that no other test has, with a registry in force and one that is tried."""

    bootstrap: str
    dsn: str
    folder: Path
    name: str = field(default_factory=lambda: f"order_{secrets.token_hex(4)}")
    databases: dict[str, Any] = field(default_factory=dict)
    progress: Counted = field(default_factory=Counted)

    @property
    def topic(self) -> str:
        return f"events.{self.name}"

    def send(self, *values: bytes | None, partitions: int = 1, topic: str = "") -> None:
        make_topics(self.bootstrap, topic or self.topic, partitions=partitions)
        produce(self.bootstrap, topic or self.topic, values)

    def registries(
        self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
    ) -> tuple[OwnRegistry, Path]:
        """Bring one registry into force, as a file does, and write the other.

        Each is an event type's entry, or a document with `event_types`.
        """
        return OwnRegistry(self.bootstrap, self._document(old), of_file=True), self.file(new)

    def file(self, entry: Mapping[str, Any] | None) -> Path:
        """Write a registry's file."""
        path = self.folder / "onramp.yaml"
        path.write_text(yaml.safe_dump(self._document(entry)))
        return path

    def _document(self, entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
        if entry is None:
            return {"event_types": {}}
        return entry if "event_types" in entry else {"event_types": {self.name: entry}}

    def settings(self, **options: Any) -> WriterSettings:
        topics = rf".*{self.name}.*"
        return WriterSettings(dsn=self.dsn, databases=self.databases, topics=topics, **options)

    def plan(
        self,
        old: Mapping[str, Any] | None,
        new: Mapping[str, Any],
        *,
        window: Window | None = None,
        events: Iterable[str] = (),
    ) -> Report:
        in_force, file = self.registries(old, new)
        kafka = KafkaSettings(bootstrap=self.bootstrap)
        return try_change(
            PlanRequest(file=file, window=window or Window(last=1_000_000), events=tuple(events)),
            self.settings(),
            kafka,
            in_force.settings,
            lambda _: Reader(kafka.brokers),
            progress=self.progress,
        )

    def environment(self, in_force: OwnRegistry) -> dict[str, str]:
        """Return what the program reads."""
        return {
            **os.environ,
            "ONRAMP_KAFKA_BOOTSTRAP": self.bootstrap,
            "ONRAMP_WRITER_DSN": self.dsn,
            "ONRAMP_WRITER_DATABASES": orjson.dumps(self.databases).decode(),
            "ONRAMP_WRITER_TOPICS": rf".*{self.name}.*",
            **in_force.env,
        }


@pytest.fixture
def ground(kafka: HasBootstrap, database: Database, tmp_path: Path) -> Ground:
    return Ground(kafka.bootstrap, database.dsn, tmp_path)
