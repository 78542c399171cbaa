"""The flow of a rehearsal: the registry in force, the lookups' tables, Kafka's ranges, the function."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from services.transform.author.example_tests import read_source
from services.transform.function.lookups import LookupTable
from services.transform.function.lookups_sql import read_lookup
from services.transform.function.output_checks import MAX_EVENT_BYTES, OutputChecks
from services.transform.function.results import Dropped, Failure, FunctionResult, OutputEvent
from services.transform.function.runner import FunctionRunner
from services.transform.function.transform_code import TransformCode, code_of
from services.transform.lane.source import event_of_type
from services.transform.rehearsal.report import Report
from services.transform.rehearsal.tally import Cause, Tally
from shared.errors import TRANSFORM_LOOKUP_UNREADABLE, InfrastructureError
from shared.json_differences import ABSENT, JsonDifference, differences
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.fetch import RangeUnreadableError
from shared.kafka_read.history import Window, ranges_in
from shared.kafka_read.range_reader import RangeReader
from shared.kafka_read.records import PartitionSlice
from shared.mask import masked
from shared.registry.entries import Snapshot
from shared.registry.in_force import in_force
from shared.registry.transforms import Transform, digest_of_source
from shared.settings import KafkaSettings, RegistrySettings

#: Maximum events in one batch of the function's process, as in the transform service.
_AT_ONCE: Final = 5_000
#: A function that kills its process on each event would take days.
_MAX_DEATHS: Final = 20
_PROGRESS_SECONDS: Final = 5.0

_Say = Callable[[str], object]


class WrongTransformError(Exception):
    """The transform cannot be rehearsed; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRequest:
    """The function to try, and the events to try it on."""

    name: str
    folder: Path
    window: Window
    #: Whether the deployed version runs on the same events.
    is_against_live: bool = False
    #: Paths of Python executables by environment.
    environments: Mapping[str, str]
    #: DSNs by database.
    databases: Mapping[str, str]
    max_event_bytes: int = MAX_EVENT_BYTES


class _Event(NamedTuple):
    value: bytes
    receipt: str


def rehearse(
    request: RehearsalRequest, kafka: KafkaSettings, registry: RegistrySettings, say: _Say
) -> Report:
    """Run the function on the window's events.

    Raises:
        WrongTransformError: the registry has no such transform, or its source or environment is missing.
        InfrastructureError: Kafka or a lookup's table cannot be read.
        OSError: the function's process cannot be started.
    """
    snapshot = in_force(registry, kafka).snapshot
    transform = snapshot.transforms.get(request.name)
    if transform is None:
        raise WrongTransformError(
            f"the registry in force has no transform {request.name}: add it to onramp.yaml and apply that"
        )
    code, live = _codes(request, transform)
    lookups = {name: _lookup(name, snapshot, request.databases) for name in transform.lookups}
    topic = snapshot.topic_of(transform.source_type)
    found = asyncio.run(ranges_in(kafka.brokers, lambda each: each == topic, request.window))
    tally = Tally(unchecked=[f"no broker leads {each}" for each in found.leaderless])
    began = time.monotonic()
    with ExitStack() as stack:
        runner = stack.enter_context(closing(FunctionRunner(code, lookups)))
        against = stack.enter_context(closing(FunctionRunner(live, lookups))) if live else None
        checks = OutputChecks(transform.to, snapshot.event_types, request.max_event_bytes)
        trial = _Trial(runner, against, checks, snapshot.personal_of(transform.source_type), tally)
        reader = stack.enter_context(closing(RangeReader(kafka.brokers)))
        said = began
        try:
            for events in _chunks(reader.read(found.ranges), transform.source_type, tally):
                if not trial.run(events):
                    reason = f"stopped after {tally.deaths} deaths of the function's process"
                    tally.unchecked.append(f"{reason}: later events were not tried")
                    break
                if time.monotonic() - said >= _PROGRESS_SECONDS:
                    said = time.monotonic()
                    say(f"tried {tally.events:,} events in {said - began:,.0f} s")
        except (RangeUnreadableError, CorruptBatchError) as e:
            tally.unchecked.append(f"unread: {e}")
    return Report(
        name=request.name,
        digest=code.digest,
        live_digest=live.digest if live else None,
        tally=tally,
        ranges=found,
        window=request.window,
        seconds=time.monotonic() - began,
    )


def _codes(request: RehearsalRequest, transform: Transform) -> tuple[TransformCode, TransformCode | None]:
    """Return the code to try, and the deployed code to compare with."""
    environment = ""
    if transform.environment is not None:
        environment = request.environments.get(transform.environment, "")
        if not environment:
            raise WrongTransformError(
                f"no environment is named {transform.environment}: set ONRAMP_TRANSFORM_ENVIRONMENTS"
            )
    try:
        source = read_source(request.folder, request.name)
    except ValueError as e:
        raise WrongTransformError(str(e)) from None
    code = TransformCode(request.name, source, digest_of_source(source), transform.limits, environment)
    if not request.is_against_live:
        return code, None
    live = code_of(request.name, transform, environment)
    if live is None:
        raise WrongTransformError(f"{request.name} is not deployed: rehearse it without --against live")
    return code, live


def _lookup(name: str, snapshot: Snapshot, databases: Mapping[str, str]) -> LookupTable:
    lookup = snapshot.lookups[name]
    if lookup.database not in databases:
        raise InfrastructureError(
            TRANSFORM_LOOKUP_UNREADABLE,
            f"lookup {name}: no address of the database {lookup.database}: give --dsn or --databases",
        )
    return read_lookup(name, lookup, databases[lookup.database])


def _chunks(pieces: Iterator[list[PartitionSlice]], source_type: str, tally: Tally) -> Iterator[list[_Event]]:
    """Yield the events of the type, up to a batch at a time, and count all records."""
    chunk: list[_Event] = []
    for part in (part for piece in pieces for part in piece):
        tally.read += len(part)
        wanted = part.wanted()
        events = list(_events(wanted, source_type))
        tally.filtered += len(part) - len(events)
        chunk += events
        while len(chunk) >= _AT_ONCE:
            yield chunk[:_AT_ONCE]
            del chunk[:_AT_ONCE]
    if chunk:
        yield chunk


def _events(part: PartitionSlice, source_type: str) -> Iterator[_Event]:
    values: pa.Array = part.rows.column("value")
    offsets = part.rows.column("offset").to_pylist()
    for offset, value in zip(offsets, values.to_pylist(), strict=True):
        if event_of_type(value, source_type) is not None:
            yield _Event(value, f"{part.partition.topic}/{part.partition.number}@{offset}")


class _Trial:
    """Runs batches of events and counts their outcomes."""

    def __init__(
        self,
        runner: FunctionRunner,
        live: FunctionRunner | None,
        checks: OutputChecks,
        personal: Collection[str],
        tally: Tally,
    ) -> None:
        """`personal`: pointers to payload fields whose shape samples do not show."""
        self._runner, self._live = runner, live
        self._runner.is_timed = True
        self._checks, self._personal, self._tally = checks, personal, tally

    def run(self, events: Sequence[_Event]) -> bool:
        """Count the outcomes of a batch; return False if too many processes have died."""
        tally, values = self._tally, [each.value for each in events]
        results = self._runner.run(values, max_deaths=_MAX_DEATHS - tally.deaths)
        tally.times.extend(self._runner.times)
        tally.deaths, tally.peak_memory = self._runner.deaths, self._runner.peak_memory
        live = self._live.run(values[: len(results)], max_deaths=_MAX_DEATHS) if self._live else None
        for at, (event, result) in enumerate(zip(events, results, strict=False)):
            cause = self._count(event, result)
            if live is not None and at < len(live):
                self._compare(event, result, cause, live[at])
            elif cause is not None:
                tally.newly_parked += 1
        return len(results) == len(events) and tally.deaths < _MAX_DEATHS

    def _count(self, event: _Event, result: FunctionResult) -> Cause | None:
        """Count an outcome; return the cause of a failure."""
        tally = self._tally
        if isinstance(result, Dropped):
            tally.dropped += 1
            return None
        cause = self._cause_of(result)
        if cause is not None:
            tally.parked += 1
            tally.failures.add(cause, event.receipt, lambda: self._masked(event.value))
        elif not isinstance(result, Failure):
            tally.emitted += 1
            tally.outputs.update(each.event_name for each in result.items)
        return cause

    def _cause_of(self, result: FunctionResult) -> Cause | None:
        if isinstance(result, Dropped):
            return None
        if isinstance(result, Failure):
            return Cause(result.error.code, result.exception, result.function, result.line)
        fault = self._checks.fault_of(result.items)
        if fault is None:
            return None
        place = f"{fault.detail} at {fault.pointer}" if fault.pointer else fault.detail
        return Cause(fault.fault.code, "", "", None, place)

    def _compare(
        self, event: _Event, result: FunctionResult, cause: Cause | None, live: FunctionResult
    ) -> None:
        live_cause = self._cause_of(live)
        if cause is not None and live_cause is None:
            self._tally.newly_parked += 1
        before, now = _outcome(live, live_cause), _outcome(result, cause)
        if before != now:
            places = {f"outcome: {before} → {now}"}
        elif now != "emitted" or live == result:
            return
        else:
            places = {_place(each) for each in differences(_documents(live), _documents(result))}
        if places:
            self._tally.differing += 1
        for place in sorted(places):
            self._tally.differences.add(place, event.receipt, lambda: self._masked(event.value))

    def _masked(self, value: bytes) -> Any:
        return masked(value, self._personal)


def _outcome(result: FunctionResult, cause: Cause | None) -> str:
    if cause is not None:
        return f"parked ({cause.code})"
    return "dropped" if isinstance(result, Dropped) else "emitted"


def _documents(result: FunctionResult) -> list[dict[str, Any]]:
    items: tuple[OutputEvent, ...] = () if isinstance(result, (Dropped, Failure)) else result.items
    return [{"event_name": each.event_name, "payload": orjson.loads(each.payload)} for each in items]


def _place(difference: JsonDifference) -> str:
    """Return a pointer into the outputs with `*` for indices, so that equal differences are one."""
    pointer = "/".join("*" if token.isdigit() else token for token in difference.pointer.split("/"))
    if difference.first is ABSENT:
        return f"{pointer}: absent from the live version"
    return f"{pointer}: only in the live version" if difference.second is ABSENT else pointer
