"""Audits transforms: each event that one has read has one outcome, and its outputs are on their topics.

The offsets of a transform's group, with the totals in their metadata, are read first: outputs and parked
events below them were committed before, and later ones are not compared.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from services.ops.audit.transform_outputs import OutputTally
from services.ops.audit.transform_replays import REPLAYS, read_replays
from services.ops.findings import Code, Finding, Report, Source, TransformLine
from services.ops.kafka_logs import KafkaLogs
from services.ops.parked.records import parked
from shared import wire
from shared.transform_totals import Position, Totals, TotalsRecord

#: Returns the topics of the outputs of each transform that the registry has ever had.
OutputTopics = Callable[[], Mapping[str, frozenset[str]]]
#: Seconds that transactions which were open at the start have to end; Kafka aborts them after fifteen.
_OPEN_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.2
_Key = tuple[str, Source]


@dataclass(slots=True)
class _TransformData:
    """The positions of the present topics, the last totals of all topics, and the parked events."""

    positions: dict[_Key, Position]
    #: By transform and partition: the last totals of each topic generation.
    records: dict[_Key, dict[str, Position]]
    topic_ids: Mapping[str, str]

    def has_one_generation(self, key: _Key) -> bool:
        """Return whether offsets name one event only: the topic was never recreated under this transform."""
        return self.records.get(key, {}).keys() <= {self.positions[key].totals.topic_id}


async def check_transforms(
    logs: KafkaLogs,
    audited: re.Pattern[str],
    output_topics: OutputTopics,
    report: Report,
    *,
    deep: bool | None,
    limit: int,
) -> None:
    """Check the transforms of audited topics that have a position; `deep` None: read up to `limit` events.

    Raises `InfrastructureError`.
    """
    data = await _collect(logs, audited)
    if not data.positions:
        return
    topics = await asyncio.to_thread(output_topics)
    names = {name for name, _ in data.positions}
    for name in sorted(names - topics.keys()):
        report.unchecked.append(
            f"transform {name}: the registry has never had it, so its outputs are not read"
        )
    wanted = {topic for name in names & topics.keys() for topic in topics[name]} & data.topic_ids.keys()
    ends = await logs.ends_with_open(wanted)
    parked_events = await _parked(logs, data)
    lines = {key: _line(key, position) for key, position in sorted(data.positions.items())}
    report.transforms = list(lines.values())
    sources = await logs.spans({source.topic for _, source in data.positions})
    spans = await _spans_after(logs, ends, report)
    positions = {key: each.next for key, each in data.positions.items()}
    replays = await read_replays(logs, positions)
    parked_events |= {(name, REPLAYS): count for name, count in replays.parked.items()}
    for key, line in lines.items():
        report.findings += [*_check_totals(data, key), *_check_parked(data, key, parked_events[key])]
        report.findings += _check_read_bound(line)
    events = sum(end - first for first, end in spans.values()) + sum(_unread(data, sources))
    if deep is False or (deep is None and events > limit):
        report.unchecked.append("events and outputs of transforms were not read: --deep reads them")
        return
    await _check_read(logs, sources, lines, report)
    tally = OutputTally()
    await tally.read(logs.read(spans), positions, replays.emitted)
    is_whole = all(first == 0 for first, _ in spans.values()) and ends.keys() <= spans.keys()
    _check_outputs(data, topics, lines, tally, report, is_whole=is_whole)


async def _collect(logs: KafkaLogs, audited: re.Pattern[str]) -> _TransformData:
    """Read the group's offsets of each transform that has totals, then the totals again."""
    topic_ids = await logs.topic_ids()
    if wire.TRANSFORMED not in topic_ids:
        return _TransformData({}, {}, topic_ids)
    names = {
        record.transform
        async for record in _totals_records(logs)
        if audited.fullmatch(record.partition.topic) and record.transform != wire.PROBE_EVENT
    }
    positions: dict[_Key, Position] = {}
    for name in sorted(names):
        offsets = await logs.offsets_of_group(f"{wire.TRANSFORM_GROUP}{name}")
        for source, (offset, metadata) in offsets.items():
            totals = Totals.of_metadata(metadata)
            if not audited.fullmatch(source.topic) and source.topic != wire.TRANSFORM_REPLAYS:
                continue
            if totals is not None and totals.topic_id == topic_ids.get(source.topic):
                positions[name, source] = Position(offset, totals)
    records: dict[_Key, dict[str, Position]] = {}
    async for record in _totals_records(logs):
        of_key = records.setdefault((record.transform, Source(*record.partition)), {})
        of_key[record.position.totals.topic_id] = record.position
    return _TransformData(positions, records, topic_ids)


async def _totals_records(logs: KafkaLogs) -> AsyncIterator[TotalsRecord]:
    async for record in logs.whole(wire.TRANSFORMED):
        if parsed := TotalsRecord.parse(record.value):
            yield parsed


async def _parked(logs: KafkaLogs, data: _TransformData) -> Counter[_Key]:
    """Count the events that transforms have parked below their positions, each key once."""
    keys: set[str] = set()
    found: Counter[_Key] = Counter()
    async for record in logs.whole(wire.USER_ERRORS):
        event = parked(record)
        if event is None or not event.destination.startswith(wire.TRANSFORM_DESTINATION):
            continue
        key = event.destination.removeprefix(wire.TRANSFORM_DESTINATION), event.source
        position = data.positions.get(key)
        if position is None or event.key in keys or event.offset >= position.next:
            continue
        if event.reason.get("topic_id") == position.totals.topic_id:
            keys.add(event.key)
            found[key] += 1
    return found


def _line(key: _Key, position: Position) -> TransformLine:
    name, source = key
    totals = position.totals
    return TransformLine(
        transform=name,
        topic=source.topic,
        partition=source.partition,
        first=totals.first,
        next_offset=position.next,
        skipped=totals.skipped,
        filtered=totals.filtered,
        dropped=totals.dropped,
        parked=totals.parked,
        emitted=totals.emitted,
        outputs=totals.outputs,
    )


def _check_totals(data: _TransformData, key: _Key) -> Iterator[Finding]:
    """Compare the totals in the group's offset with the record that its transaction wrote."""
    position = data.positions[key]
    record = data.records.get(key, {}).get(position.totals.topic_id)
    if record is not None and record.next == position.next and record.totals != position.totals:
        text = f"{_named(key)}: the totals of its group's offset and of {wire.TRANSFORMED} differ"
        yield Finding(Code.WRONG_TOTAL, key[1], None, text)


def _check_parked(data: _TransformData, key: _Key, found: int) -> Iterator[Finding]:
    counted = data.positions[key].totals.parked
    if found != counted:
        topic = wire.TRANSFORM_REPLAYED if key[1] == REPLAYS else wire.USER_ERRORS
        text = f"{_named(key)} counts {counted} parked, {topic} holds {found}"
        yield Finding(Code.WRONG_TOTAL, key[1], None, text)


def _check_read_bound(line: TransformLine) -> Iterator[Finding]:
    """Compare with the offsets: some of them may have no record, so only more outcomes are a finding."""
    if line.accounted > line.next_offset - line.first - line.skipped:
        yield _unbalanced(line, line.next_offset - line.first - line.skipped)


def _unbalanced(line: TransformLine, read: int) -> Finding:
    return Finding(
        Code.UNBALANCED,
        Source(line.topic, line.partition),
        None,
        f"transform {line.transform}: {read} were to be accounted for in [{line.first}, {line.next_offset}); "
        f"the totals are {line.filtered} filtered, {line.dropped} dropped, {line.parked} parked, "
        f"{line.emitted} emitted: {line.accounted} in all",
    )


def _unread(data: _TransformData, spans: Mapping[Source, tuple[int, int]]) -> Iterator[int]:
    """Yield the number of offsets of each source partition between the first position and the last."""
    for source in {source for _, source in data.positions} & spans.keys():
        of_source = [each for (_, other), each in data.positions.items() if other == source]
        yield max(each.next for each in of_source) - min(each.totals.first for each in of_source)


async def _check_read(
    logs: KafkaLogs,
    spans: Mapping[Source, tuple[int, int]],
    lines: Mapping[_Key, TransformLine],
    report: Report,
) -> None:
    """Count the records that each transform has read, and compare them with its outcomes."""
    by_source: dict[Source, list[TransformLine]] = {}
    for (_, source), line in lines.items():
        by_source.setdefault(source, []).append(line)
    for source, of_source in by_source.items():
        log_first, log_end = spans.get(source, (0, 0))
        first = max(min(each.first for each in of_source), log_first)
        upto = max(each.next_offset for each in of_source)
        counts: Counter[str] = Counter()
        async for record in logs.read({source: (first, min(upto, log_end))}):
            report.receipts += 1
            counts.update(
                each.transform for each in of_source if each.first <= record.offset < each.next_offset
            )
        for line in of_source:
            read = counts[line.transform]
            if line.first < log_first or line.skipped or line.next_offset > log_end:
                report.unchecked.append(
                    f"transform {line.transform}: Kafka has deleted events of {source}, so its outcomes are "
                    "not compared with what it read"
                )
            else:
                line.read = read
                if read != line.accounted:
                    report.findings.append(_unbalanced(line, read))


async def _spans_after(
    logs: KafkaLogs, ends: Mapping[Source, int], report: Report
) -> dict[Source, tuple[int, int]]:
    """Return the readable offsets of the outputs' topics once transactions that were open have ended."""
    topics = {source.topic for source in ends}
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            while True:
                spans = await logs.spans(topics)
                if all(spans[source][1] >= end for source, end in ends.items() if source in spans):
                    return spans
                await asyncio.sleep(_AGAIN_SECONDS)
    except TimeoutError:
        open_ones = sorted(
            str(source) for source, end in ends.items() if spans.get(source, (0, end))[1] < end
        )
        report.unchecked.append(
            f"a transaction on {', '.join(open_ones)} is open: outputs behind it are not read"
        )
        return {}


def _check_outputs(
    data: _TransformData,
    topics: Mapping[str, frozenset[str]],
    lines: Mapping[_Key, TransformLine],
    tally: OutputTally,
    report: Report,
    *,
    is_whole: bool,
) -> None:
    """Compare outputs on Kafka with the totals; `is_whole`: none was deleted, and all could be read."""
    report.receipts += tally.records
    for repeat in tally.repeats:
        name, source, offset, event_id = repeat.output
        text = f"transform {name}: output {event_id} of this event is there again, at {repeat.place}"
        report.findings.append(Finding(Code.DUPLICATE, source, offset, text))
    for key, line in lines.items():
        if line.transform not in topics:
            continue
        source, found = key[1], tally.outputs[key]
        if not data.has_one_generation(key):
            report.unchecked.append(
                f"{_named(key)}: {source.topic} was recreated, so its outputs are not attributed to one topic"
            )
            continue
        line.on_kafka = found
        missing = line.outputs - found
        if missing > 0 and not is_whole:
            report.unchecked.append(
                f"{_named(key)}: {missing} outputs of {source} are not on Kafka, which has deleted some"
            )
        elif missing > 0:
            text = f"{_named(key)}: {missing} of {line.outputs} outputs are not on their topics"
            report.findings.append(Finding(Code.LOST, source, None, text))
        elif missing < 0:
            text = f"{_named(key)} counts {line.outputs} outputs, their topics hold {found}"
            report.findings.append(Finding(Code.PHANTOM, source, None, text))
        if is_whole and (emitted := len(tally.emitted[key])) != line.emitted:
            text = f"{_named(key)} counts {line.emitted} emitted, {emitted} events have outputs"
            report.findings.append(Finding(Code.WRONG_TOTAL, source, None, text))


def _named(key: _Key) -> str:
    return f"transform {key[0]}"
