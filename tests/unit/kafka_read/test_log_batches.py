"""Batches of a fetch response: which ones count, and the offset of the next fetch."""

import gzip
import struct

import cramjam
import pytest

from shared.kafka_read import decompress
from shared.kafka_read.decompress import CorruptBatchError, decompressed
from shared.kafka_read.log_batches import LogBatch, committed
from tests.unit.kafka_read.batches import batch, changed, marker

A, B = 1001, 1002
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def _offsets(batches: list[LogBatch]) -> list[int]:
    return [each.base_offset for each in batches]


def test_batches_come_in_order_with_all_that_counts_for_their_records() -> None:
    found = committed(batch(5, [b"a", b"b"]) + batch(7, [b"c"]), 5)
    assert [(b.base_offset, b.next_offset, b.records) for b in found.batches] == [(5, 7, 2), (7, 8, 1)]
    assert {(b.first_timestamp, b.append_time) for b in found.batches} == {(1_700_000_000_000, None)}
    assert found.next_offset == 8


def test_nothing_is_no_progress() -> None:
    assert committed(b"", 42) == ([], 42)


def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch() -> None:
    whole, cut = batch(0, [b"a"]), batch(1, [b"b" * 50])
    for size in (1, 16, 17, 40, 61, len(cut) - 1):
        found = committed(whole + cut[:size], 0)
        assert (_offsets(found.batches), found.next_offset) == ([0], 1), size


def test_batch_around_the_fetch_offset_is_whole_and_earlier_batches_are_skipped() -> None:
    found = committed(batch(0, [b"a"]) + batch(1, [b"b", b"c"]), 2)
    assert (_offsets(found.batches), found.next_offset) == ([1], 3)


def test_offsets_removed_by_compaction_are_skipped() -> None:
    shrunk = changed(batch(10, [b"a"]), last_offset_delta=9)
    found = committed(shrunk, 10)
    assert (found.batches[0].records, found.next_offset) == (1, 20)


def test_aborted_records_do_not_count_and_those_beside_them_do() -> None:
    data = b"".join(
        [
            batch(0, [b"a"], producer=A, transactional=True),
            batch(1, [b"b"], producer=B, transactional=True),
            batch(2, [b"nobody's"]),
            batch(3, [b"of A, without a transaction"], producer=A),
            marker(4, A, commits=False),
            batch(5, [b"A again"], producer=A, transactional=True),
            marker(6, B, commits=True),
            marker(7, A, commits=True),
        ]
    )
    found = committed(data, 0, [(A, 0)])
    assert (_offsets(found.batches), found.next_offset) == ([1, 2, 3, 5], 8)


def test_a_transaction_that_was_aborted_twice_is_so_each_time() -> None:
    data = b"".join(
        [
            batch(0, [b"a"], producer=A, transactional=True),
            marker(1, A, commits=False),
            batch(2, [b"b"], producer=A, transactional=True),
            marker(3, A, commits=True),
            batch(4, [b"c"], producer=A, transactional=True),
            marker(5, A, commits=False),
        ]
    )
    assert _offsets(committed(data, 0, [(A, 4), (A, 0)]).batches) == [2]


def test_only_markers_is_progress_all_the_same() -> None:
    assert committed(marker(7, A, commits=True), 7) == ([], 8)


@pytest.mark.parametrize("place", [17, 21, 30, 61, -1])
def test_bytes_that_are_not_what_the_producer_sent_are_refused(place: int) -> None:
    damaged = bytearray(batch(3, [b"a" * 100]))
    damaged[place] ^= 1
    with pytest.raises(CorruptBatchError, match="offset 3 does not have its checksum"):
        committed(bytes(damaged), 3)


def test_batch_of_an_old_format_or_cut_head_is_refused() -> None:
    old = bytearray(batch(3, [b"a"]))
    old[16] = 1
    with pytest.raises(CorruptBatchError, match="offset 3 has message format 1"):
        committed(bytes(old), 3)
    short = struct.pack(">qiib", 3, 10, 0, 2) + bytes(10)
    with pytest.raises(CorruptBatchError, match="shorter than its head"):
        committed(short, 3)


def _zeros(codec: int, size: int) -> bytes:
    """Compressed data that expands to `size` zeros."""
    if codec == GZIP:
        return gzip.compress(bytes(size), 6)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(bytes(size)))
    if codec == LZ4:
        return bytes(cramjam.lz4.compress(bytes(size)))
    return bytes(cramjam.snappy.compress_raw(bytes(size)))


def _java_snappy(*blocks: bytes) -> bytes:
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_batch_that_decompresses_beyond_the_byte_limit_is_refused(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompress, "MAX_BYTES", 3_000_000)
    for size, refused in ((3_000_000, False), (3_000_001, True)):
        found = _zeros(codec, size)
        if not refused:
            assert decompressed(codec, memoryview(found), 3) == bytes(size)
            continue
        with pytest.raises(CorruptBatchError, match=r"offset 3 has more than 3,000,000 bytes when decom"):
            decompressed(codec, memoryview(found), 3)


def test_snappy_of_java_is_bounded_by_all_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "MAX_BYTES", 250)
    block = _zeros(SNAPPY, 100)
    assert decompressed(SNAPPY, memoryview(_java_snappy(block, block)), 3) == bytes(200)
    with pytest.raises(CorruptBatchError, match="more than 250 bytes"):
        decompressed(SNAPPY, memoryview(_java_snappy(block, block, block)), 3)
    with pytest.raises(CorruptBatchError, match="cannot be decompressed"):
        decompressed(SNAPPY, memoryview(_java_snappy(block)[:-1]), 3)


def test_two_streams_one_behind_the_other_are_one_as_kafka_reads_them() -> None:
    for codec in (GZIP, LZ4, ZSTD):
        assert decompressed(codec, memoryview(_zeros(codec, 7) * 2), 3) == bytes(14)


def test_batches_beyond_what_a_worker_holds_are_left_for_the_next_fetch() -> None:
    data = b"".join(batch(n, [bytes(1_000)], codec=ZSTD) for n in range(9))
    found = committed(data, 0, room=2_500)
    assert (_offsets(found.batches), found.next_offset) == ([0, 1], 2)
    assert _offsets(committed(data, found.next_offset, room=1).batches) == [2]


def test_more_records_than_a_batch_may_have_are_refused() -> None:
    many = changed(batch(3, [b"a"]), count=1_000_001)
    with pytest.raises(CorruptBatchError, match="offset 3 has 1,000,001 records"):
        committed(many, 3)


def test_a_compression_that_is_unknown_or_is_none_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="unknown compression, 7"):
        committed(changed(batch(3, [b"a"]), attributes=7), 3)
    for codec in (1, 2, 3, 4):
        with pytest.raises(CorruptBatchError, match="offset 3 cannot be decompressed"):
            committed(changed(batch(3, [b"a"]), attributes=codec), 3)
