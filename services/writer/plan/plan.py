"""The flow of a plan: both registries, the surveys of the databases, Kafka's ranges, one Spark job."""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from services.writer.driver.routes_from_registry import topics_of, unusable
from services.writer.driver.spark import Spark
from services.writer.model import connection_budget
from services.writer.observe.job_progress import Progress
from services.writer.observe.jvm_stderr import without_warnings
from services.writer.plan import tally
from services.writer.plan.report import Report
from services.writer.plan.rules import TableName, rules_of
from services.writer.plan.survey import Survey, survey
from services.writer.plan.task import TrialOrder, shares, try_share
from services.writer.postgres.database import Database, configured
from services.writer.settings import WriterSettings
from shared import wire
from shared.contracts.json_schema import compile_schema
from shared.contracts.tables import FieldColumn, columns_of, quoted
from shared.errors import InfrastructureError
from shared.kafka_read.history import Window, ranges_in
from shared.kafka_read.offsets import Range, total
from shared.registry.changes import schema_changes
from shared.registry.difference import too_large
from shared.registry.entries import Destination, Snapshot
from shared.registry.file import load, placed
from shared.registry.in_force import InForce, in_force
from shared.registry.merge import merge_file
from shared.registry.sources import require_no_clash
from shared.registry.transforms import require_fit
from shared.settings import KafkaSettings, RegistrySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The change to try, and the events to try it on; `events`: patterns of their names, all if empty."""

    file: Path
    window: Window
    events: tuple[str, ...] = ()


class WrongFileError(Exception):
    """The file cannot be applied; the text names the place and the reason."""


class Jobs(Protocol):
    """The interface to Spark that a plan needs."""

    @property
    def slots(self) -> int:
        """Maximum concurrent tasks."""
        ...

    def collect(
        self, work: Callable[[Iterable[int]], Iterable[tally.TaskTally]], tasks: int
    ) -> list[tally.TaskTally]:
        """Run `work` in that many tasks, each with its number, and return their results."""
        ...

    def stop(self) -> None:
        """Stop Spark."""
        ...


def try_change(
    request: PlanRequest,
    settings: WriterSettings,
    kafka: KafkaSettings,
    registry: RegistrySettings,
    start: Callable[[WriterSettings], Jobs] = Spark,
    *,
    progress: Progress | None = None,
) -> Report:
    """Try the change on the events in Kafka; `start` starts the runner of the tasks.

    Raises:
        WrongFileError: the file is not a registry, or this writer could not follow it.
        InfrastructureError: Kafka cannot be read.
    """
    # No connection is pooled: a plan has one per slot, and this process is not a slot.
    databases = [replace(each, keep=False) for each in configured(settings)]
    progress = progress or Progress()
    _require_registry(request.file)
    progress.say("reading the registry in force, the databases' tables and Kafka's offsets")
    followed = in_force(registry, kafka)
    new, notes = changed(followed, request.file, databases)
    old = followed.snapshot
    try:
        _require_schemas(old)
    except ValueError as e:
        raise WrongFileError(f"the registry in force: {e}") from None
    surveys = {each.name: _surveyed(each, databases, old, new) for each in databases}
    topics = _topics(settings, (old, new), request.events)
    window_ranges = asyncio.run(ranges_in(kafka.brokers, topics, request.window))
    order = TrialOrder(
        old=rules_of(old, databases),
        new=rules_of(new, databases, {t: columns for s in surveys.values() for t, columns in s.adds.items()}),
        databases=tuple(d for d in databases if not surveys[d.name].out),
        out={name: each.out for name, each in surveys.items() if each.out}
        | dict.fromkeys(rules_of(old, databases).routes.unconfigured(), "no such database is configured"),
        brokers=kafka.brokers,
        events=request.events,
        personal=_personal(old, new),
    )
    counts, seconds = tally.TaskTally(), 0.0
    if window_ranges.ranges:
        counts, seconds = _run(order, window_ranges.ranges, partial(start, settings), progress)
    return Report(
        tally=counts,
        window_ranges=window_ranges,
        window=request.window,
        surveys=surveys,
        findings=schema_changes(old, new),
        merge=notes,
        same=old.digest == new.digest,
        seconds=seconds,
    )


def _run(
    order: TrialOrder, ranges: Sequence[Range], start: Callable[[], Jobs], progress: Progress
) -> tuple[tally.TaskTally, float]:
    """Run a task per slot, each with one connection per database; return their counts, and the seconds."""
    offsets = total(ranges)
    progress.say(f"starting Spark for {offsets:,} offsets of {len(ranges)} partitions")
    with without_warnings():
        spark = start()
    began = time.monotonic()
    try:
        slots = min([spark.slots, *(d.max_connections for d in order.databases if d.max_connections)])
        tasks = connection_budget.tasks(offsets, len(ranges) * slots, slots, ())
        with progress.following(offsets) as folder:
            work = partial(try_share, replace(order, progress=folder), shares(ranges, tasks))
            return tally.total(spark.collect(work, tasks)), time.monotonic() - began
    finally:
        spark.stop()


class Changed(NamedTuple):
    """The registry after `onramp apply`, and the notes of `apply` on entries that others have changed."""

    snapshot: Snapshot
    notes: list[str]


def changed(old: InForce, file: Path, databases: Sequence[Database]) -> Changed:
    """Return the registry in force with the file's sections; sections that it does not name are unchanged.

    Raise `WrongFileError`.
    """
    notes: list[str] = []
    try:
        wanted = load(file)
        if old.chain is not None:
            mine = merge_file(old.chain, wanted)
            wanted, notes = mine.desired, mine.unchanged
            notes += [f"apply would refuse: {place} was also changed by others" for place in mine.clashes]
        new = Snapshot(
            **{name: getattr(each, name) for each in (old.snapshot, wanted) for name in each.model_fields_set}
        )
        _require_schemas(new)
        require_no_clash(new.sources, new.models)
        require_fit(new.transforms, new.lookups, new.event_types)
        _require_usable(new, databases)
    except ValueError as e:  # a RegistryFileError is one
        raise WrongFileError(placed(file, str(e))) from None
    if reason := too_large(new):
        raise WrongFileError(reason)
    return Changed(new, notes)


def _require_registry(file: Path) -> None:
    """Raise `WrongFileError` if the file is not a registry, before Kafka is contacted."""
    try:
        load(file)
    except ValueError as e:
        raise WrongFileError(placed(file, str(e))) from None


def _require_usable(snapshot: Snapshot, databases: Sequence[Database]) -> None:
    """Raise `ValueError` unless the writer's settings have every named database and schema."""
    if wrong := unusable(snapshot, databases):
        raise ValueError("; ".join(f"{place}: {reason}" for place, reason in wrong.items()))


def _require_schemas(snapshot: Snapshot) -> None:
    """Raise `ValueError` unless each schema compiles."""
    for name, event_type in snapshot.event_types.items():
        try:
            compile_schema(event_type.checked_schema or {})
        except ValueError as e:
            raise ValueError(f"event_types.{name}.schema: {e}") from None


def _surveyed(database: Database, databases: Sequence[Database], old: Snapshot, new: Snapshot) -> Survey:
    default = databases[0].name
    wanted: dict[TableName, tuple[FieldColumn, ...]] = {}
    for name, columns in _creates(new, default):
        if name.database == database.name:  # event types that share a table contribute columns each
            known = wanted.get(name, ())
            wanted[name] = known + tuple(c for c in columns if c.name not in {k.name for k in known})
    named = {name for s in (old, new) for name, _, _ in _tables(s, default) if name.database == database.name}
    try:
        return survey(database, wanted, named)
    except InfrastructureError as e:
        return Survey(out=e.detail)


def _creates(snapshot: Snapshot, default: str) -> Iterator[tuple[TableName, tuple[FieldColumn, ...]]]:
    """Yield the tables that `onramp apply` creates or extends.  Raise `WrongFileError`."""
    for name, event_type, destination in _tables(snapshot, default):
        if destination.create:
            try:
                quoted(name.schema), quoted(name.table)
                yield name, tuple(columns_of(snapshot.event_types[event_type].json_schema or {}))
            except ValueError as e:
                raise WrongFileError(f"event_types.{event_type}: {e}") from None


def _tables(snapshot: Snapshot, default: str) -> Iterator[tuple[TableName, str, Destination]]:
    for event_type, known in snapshot.event_types.items():
        for each in known.database_destinations:
            if each.table:
                database = each.vanity or each.database or default
                yield TableName(database, each.db_schema or "", each.table), event_type, each


def _topics(
    settings: WriterSettings, sides: Sequence[Snapshot], events: Sequence[str]
) -> Callable[[str], bool]:
    """Return a test of whether the writer reads a topic under either registry, for one of the events."""
    pattern = re.compile(settings.topics)
    named = {topic for side in sides for topic in topics_of(side)}
    sources = {source for side in sides for source in side.sources}
    own: dict[str, set[str]] = defaultdict(set)
    for side in sides:
        for name, known in side.event_types.items():
            for topic in (known.topic or wire.topic_of(name), wire.topic_of(name)):
                own[topic].add(name)

    def is_read(topic: str) -> bool:
        if any(wire.is_change_topic(topic, source) for source in sources):
            return False  # changes are not events: no event type applies to them
        if topic not in named and not pattern.fullmatch(topic):
            return False
        names = own.get(topic, set()) | {topic.removeprefix(wire.EVENT_TOPIC_PREFIX)}
        return not events or any(fnmatchcase(name, each) for name in names for each in events)

    return is_read


def _personal(*sides: Snapshot) -> dict[str, tuple[str, ...]]:
    names = {name for side in sides for name in side.event_types}
    return {
        name: tuple(
            {p for side in sides if name in side.event_types for p in side.event_types[name].personal}
        )
        for name in names
    }
