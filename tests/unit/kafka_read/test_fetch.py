"""Fetch requests to each broker until all ranges are read, tested with a fake Kafka client."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import RequestTimedOutError

from shared.errors import InfrastructureError
from shared.kafka_read import fetch
from shared.kafka_read.fetch import Fetcher, RangeUnreadableError
from shared.kafka_read.list_offsets import LocalOffsetsRequest
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.range_reader import RangeReader
from shared.kafka_security import Brokers as Kafka
from shared.kafka_security import KafkaSecurity
from tests.unit.kafka_read.batches import batch

Log = list[bytes]
P, Q, R = (Partition("events.e", n) for n in range(3))
LEADER_MOVED, UNKNOWN_TOPIC, NO_RIGHT, OUT_OF_RANGE, COMPRESSION = 6, 3, 29, 1, 76


class Brokers:
    """A client for a fetcher: brokers that answer from `logs`, with a maximum of bytes."""

    def __init__(self, logs: Mapping[Partition, Log], most_bytes: int = 1 << 20) -> None:
        self.logs = logs
        self.most_bytes = most_bytes
        self.cluster = SimpleNamespace(leader_for_partition=self.leader)
        self.leaders = dict.fromkeys(logs, 1)
        self.errors: dict[Partition, list[int]] = {}
        self.away: list[int] = []
        self.asked: list[tuple[int, list[Partition]]] = []
        self.refreshed = 0
        #: What lies before comes from a remote store, which is slow at first; None: older than such stores.
        self.local_start: int | None = 0
        self.slow = 0

    def leader(self, p: TopicPartition) -> int | None:
        return self.leaders.get(Partition(*p))

    def force_metadata_update(self) -> None:
        self.refreshed += 1

    async def set_topics(self, topics: Sequence[str]) -> None:
        assert topics == ["events.e"]

    async def send(self, node: int, request: Any) -> Any:
        if isinstance(request, LocalOffsetsRequest):
            return self._local_starts(request)
        asked = [(Partition(t, p), offset) for t, parts in request.topics for p, offset, _ in parts]
        self.asked.append((node, [p for p, _ in asked]))
        if node in self.away:
            self.away.remove(node)
            raise RequestTimedOutError
        left, answer = self.most_bytes, []
        for p, offset in asked:
            error = self.errors[p].pop(0) if self.errors.get(p) else 0
            # The first batch comes whole, however large; what others have is cut where the answer is full.
            data = b"" if error or self._is_slow(offset) else b"".join(self.logs[p][offset:])
            whole = len(self.logs[p][offset]) if data and left == self.most_bytes else 0
            data = data[: max(left, whole)]
            left = max(left - len(data), 0)
            end = len(self.logs[p])
            answer.append((p.topic, [(p.number, error, end, end, 0, [], -1, data)]))
        return SimpleNamespace(topics=answer)

    def _is_slow(self, offset: int) -> bool:
        if self.local_start is None or offset >= self.local_start or not self.slow:
            return False
        self.slow -= 1
        return True

    def _local_starts(self, request: LocalOffsetsRequest) -> Any:
        if self.local_start is None:
            raise NotImplementedError
        told = [
            (topic, [(number, 0, -1, self.local_start, 0, {}) for number, *_ in questions], {})
            for topic, questions in request.topics
        ]
        return SimpleNamespace(topics=told)


def _log(count: int, size: int = 10) -> Log:
    """Batches of one record each."""
    return [batch(n, [b"x" * size]) for n in range(count)]


def _read(
    brokers: Brokers,
    *ranges: tuple[Partition, int, int],
    patience: float = 60,
    pieces: list[int] | None = None,
) -> dict[Partition, list[int]]:
    """The offsets of `ranges`; `pieces` gets how many there were at a time."""
    fetcher = Fetcher.__new__(Fetcher)  # without its Kafka
    fetcher._client, fetcher._patience_s, fetcher._topics = brokers, patience, set()

    async def read() -> dict[Partition, list[int]]:
        found: dict[Partition, list[int]] = {}
        async for piece in fetcher.read([Range("", *r) for r in ranges]):
            if pieces is not None:
                pieces.append(sum(len(each) for each in piece))
            for each in piece:
                found.setdefault(each.partition, []).extend(each.rows.column("offset").to_pylist())
        return found

    return asyncio.run(read())


def test_all_partitions_of_a_leader_are_asked_for_in_one_request() -> None:
    brokers = Brokers({P: _log(9), Q: _log(5), R: _log(3)})
    brokers.leaders[R] = 2
    assert _read(brokers, (P, 2, 7), (Q, 0, 5), (R, 1, 3)) == {
        P: [2, 3, 4, 5, 6],
        Q: [0, 1, 2, 3, 4],
        R: [1, 2],
    }
    assert brokers.asked == [(1, [P, Q]), (2, [R])]


def test_partition_that_got_no_records_is_first_in_the_next_request() -> None:
    size = len(_log(1, 300)[0])
    brokers = Brokers({P: _log(4, 300), Q: _log(4, 300), R: _log(4, 300)}, most_bytes=2 * size)
    assert _read(brokers, (P, 0, 4), (Q, 0, 4), (R, 0, 4)) == {p: [0, 1, 2, 3] for p in (P, Q, R)}
    assert [asked[0] for _, asked in brokers.asked] == [P, Q, R, P, Q, R]


def test_a_batch_that_is_larger_than_an_answer_comes_whole() -> None:
    brokers = Brokers({P: _log(3, 5_000), Q: _log(3, 5_000)}, most_bytes=1_000)
    assert _read(brokers, (P, 0, 3), (Q, 0, 3)) == {P: [0, 1, 2], Q: [0, 1, 2]}


def test_ranges_that_decompress_beyond_the_byte_limit_are_read_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 3 * 5_000)
    logs = {p: [batch(n, [bytes(5_000)], codec=4) for n in range(4)] for p in (P, Q, R)}
    brokers = Brokers(logs)
    pieces: list[int] = []
    assert _read(brokers, (P, 0, 4), (Q, 0, 4), (R, 0, 4), pieces=pieces) == {
        p: [0, 1, 2, 3] for p in (P, Q, R)
    }
    assert max(pieces) == 3


def test_a_range_of_which_nothing_is_left_is_read_when_the_leader_has_nothing_at_all() -> None:
    logs = {P: [*_log(2), b"", b"", b""], Q: _log(3)}
    assert _read(Brokers(logs), (P, 2, 5), (Q, 0, 3)) == {Q: [0, 1, 2]}
    assert _read(Brokers(logs), (P, 0, 5)) == {P: [0, 1]}


def test_slow_answer_of_a_remote_store_is_no_hole() -> None:
    brokers = Brokers({P: _log(9), Q: _log(9)})
    brokers.local_start, brokers.slow = 6, 5
    assert _read(brokers, (P, 0, 4), (Q, 0, 9)) == {P: [0, 1, 2, 3], Q: list(range(9))}
    assert not brokers.slow


def test_a_broker_that_is_older_than_remote_stores_has_holes_all_the_same() -> None:
    brokers = Brokers({P: [*_log(2), b"", b"", b""]})
    brokers.local_start = None
    assert _read(brokers, (P, 0, 5)) == {P: [0, 1]}


def test_an_answer_that_was_full_says_nothing_about_whom_it_left_out() -> None:
    brokers = Brokers({P: _log(3, 300), Q: _log(3, 300)}, most_bytes=1)
    assert _read(brokers, (P, 0, 3), (Q, 0, 3)) == {P: [0, 1, 2], Q: [0, 1, 2]}


def test_uncommitted_range_is_no_hole_and_is_refused_for_now() -> None:
    with pytest.raises(InfrastructureError, match=r"events.e/0 \[0, 4\) cannot be read for now"):
        _read(Brokers({P: _log(3)}), (P, 0, 4), patience=0.2)


@pytest.mark.parametrize("code", [LEADER_MOVED, UNKNOWN_TOPIC])
def test_a_partition_that_moves_is_asked_for_again_at_its_new_leader(code: int) -> None:
    brokers = Brokers({P: _log(2), Q: _log(2)})
    brokers.errors[P] = [code, code]
    assert _read(brokers, (P, 0, 2), (Q, 0, 2)) == {P: [0, 1], Q: [0, 1]}
    assert brokers.refreshed == 2
    assert brokers.asked == [(1, [P, Q]), (1, [P]), (1, [P])]


def test_a_broker_that_does_not_answer_is_asked_again_while_others_give() -> None:
    brokers = Brokers({P: _log(2), Q: _log(2)})
    brokers.leaders[Q], brokers.away = 2, [2, 2]
    assert _read(brokers, (P, 0, 2), (Q, 0, 2)) == {P: [0, 1], Q: [0, 1]}


@pytest.mark.parametrize("leader", [None, -1])
def test_range_of_a_partition_without_a_leader_is_refused_after_the_timeout(leader: int | None) -> None:
    brokers = Brokers({P: _log(2)})
    brokers.leaders[P] = leader  # type: ignore[assignment]
    with pytest.raises(InfrastructureError, match="cannot be read for now"):
        _read(brokers, (P, 0, 2), patience=0.2)
    assert brokers.refreshed
    assert not brokers.asked


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (OUT_OF_RANGE, "Kafka has no offset 0: events may have been lost"),
        (NO_RIGHT, r"\[0, 2\).* TopicAuthorizationFailedError"),
        (COMPRESSION, r"\[0, 2\).* cannot be read"),
    ],
)
def test_permanent_error_is_raised_with_its_range(code: int, says: str) -> None:
    brokers = Brokers({P: _log(2)})
    brokers.errors[P] = [code]
    with pytest.raises(RangeUnreadableError, match=rf"events.e/0.* {says}"):
        _read(brokers, (P, 0, 2))


def test_empty_range_sends_no_request() -> None:
    assert _read(Brokers({P: _log(2)}), (P, 1, 1)) == {}


def test_a_password_that_is_away_is_an_outage_and_no_records_fault(tmp_path: Path) -> None:
    away = KafkaSecurity(protocol="SASL_PLAINTEXT", username="u", password_file=tmp_path / "password")
    with (
        closing(RangeReader(Kafka("127.0.0.1:1", away))) as reader,
        pytest.raises(InfrastructureError, match="cannot be read"),
    ):
        list(reader.read([Range("", P, 0, 1)]))
