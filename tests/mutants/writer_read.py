"""What keeps READ true: which offsets, which records, whose word is believed about them."""

from typing import Final

from tests.mutants.machine import Mutant

_CONTRACT: Final = "tests/contract/test_reading.py"
_UNIT: Final = "tests/unit/writer_read"
_FETCH: Final = f"{_UNIT}/test_fetch.py"
_BATCHES: Final = f"{_UNIT}/test_log_batches.py"
_COLUMNS: Final = f"{_UNIT}/test_record_columns.py"

READ: Final = (
    Mutant(
        "a range's start",
        "read/record_columns.py",
        "(offsets >= first[of_batch]) & ",
        "",
        _COLUMNS,
    ),
    Mutant("a range's end", "read/record_columns.py", " & (offsets < end[of_batch])", "", _COLUMNS),
    Mutant(
        "values of records that are for this writer alone",
        "read/record_columns.py",
        "(value_sizes >= 0) & contexts.is_valid().to_numpy(zero_copy_only=False)",
        "value_sizes >= 0",
        _COLUMNS,
    ),
    Mutant(
        "the nearest time that can be told",
        "read/record_columns.py",
        "np.clip(times, FIRST_MS, LAST_MS) * 1000",
        "np.clip(times, -(2**53), 2**53) * 1000",
        _COLUMNS,
    ),
    Mutant(
        "records that must fill their batch",
        "read/record_columns.py",
        "        if at != batch_end:\n",
        "        if at > len(data):\n",
        _COLUMNS,
    ),
    Mutant(
        "fields within their record",
        "read/record_columns.py",
        "if np.any(field_ends >= ends) or np.any(field_ends < starts):",
        "if False:",
        _COLUMNS,
    ),
    Mutant(
        "offsets that Kafka gave",
        "read/record_columns.py",
        "    if whole.all():\n        return in_a_row\n",
        "    whole = np.zeros(len(counts), bool)\n",
        _COLUMNS,
    ),
    Mutant(
        "a batch's offsets in order, and its own",
        "read/record_columns.py",
        "if np.any(falls) or np.any(offsets < bases[of_batch]) or np.any(offsets >= ends[of_batch]):",
        "if False:",
        _COLUMNS,
    ),
    Mutant(
        "what a stream unfolds to",
        "read/decompress.py",
        "            if left < 0:\n",
        "            if False:\n",
        _BATCHES,
    ),
    Mutant(
        "what snappy unfolds to",
        "read/decompress.py",
        "for block in blocks) > MOST_BYTES",
        "for block in blocks) < 0",
        _BATCHES,
    ),
    Mutant(
        "as many records as a worker holds",
        "read/log_batches.py",
        "            if count > _MOST_RECORDS:\n",
        "            if False:\n",
        _BATCHES,
    ),
    Mutant(
        "batches as a worker holds them at a time",
        "read/log_batches.py",
        "        if room <= 0:\n            break\n",
        "",
        _BATCHES,
    ),
    Mutant(
        "partitions as a worker holds them at a time",
        "read/fetch.py",
        "room -= sum(",
        "room += sum(",
        _FETCH,
    ),
    Mutant(
        "the last of two headers with one name",
        "read/record_headers.py",
        " & ~np.isin(name_sizes, list(_OUR_SIZES))",
        "",
        _COLUMNS,
    ),
    Mutant(
        "headers that must fill their record",
        "read/record_headers.py",
        "        found &= at == ends\n",
        "",
        _COLUMNS,
    ),
    Mutant(
        "the checksum",
        "read/log_batches.py",
        "if calc_crc32c(view[at + _CRC_COVERS_FROM : following]) != head[4]:",
        "if False:",
        _BATCHES,
    ),
    Mutant(
        "leaving out what was aborted",
        "read/log_batches.py",
        "not (attributes & _TRANSACTIONAL and producer in transactions.running) and count > 0",
        "count > 0",
        _BATCHES,
    ),
    Mutant(
        "the end of an aborted transaction",
        "read/log_batches.py",
        "self.running.discard(producer)",
        "pass",
        _BATCHES,
    ),
    Mutant(
        "what compaction removed at the end of a batch",
        "read/log_batches.py",
        "next_offset = base + last_delta + 1",
        "next_offset = base + count",
        _BATCHES,
    ),
    Mutant(
        "a hole only where the leader has nothing at all",
        "read/fetch.py",
        "part.nothing_came and part.committed_end",
        "not part.data and part.committed_end",
        _FETCH,
    ),
    Mutant(
        "a hole only below the committed end",
        "read/fetch.py",
        "is_hole = part.nothing_came and part.committed_end >= self.range.end",
        "is_hole = part.nothing_came",
        _FETCH,
    ),
    Mutant(
        "a hole only on the leader's own disk",
        "read/fetch.py",
        "if start <= offsets[p]}",
        "if start >= 0}",
        _FETCH,
    ),
    Mutant(
        "who got nothing comes first",
        "read/fetch.py",
        "key=progressed.__contains__",
        "key=lambda r: r not in progressed",
        _FETCH,
    ),
    Mutant(
        "a partition that moves",
        "read/fetch.py",
        "        if part.error in ASK_ANOTHER_TIME:\n",
        "        if part.error in ():\n",
        _FETCH,
    ),
    Mutant(
        "a password that is away is an outage",
        "read/range_reader.py",
        "except OSError as e:",
        "except KeyError as e:",
        _FETCH,
    ),
    Mutant(
        "what Kafka has deleted is not passed over",
        "read/fetch.py",
        "        if part.error == _OFFSET_OUT_OF_RANGE:\n",
        "        if part.error == _OFFSET_OUT_OF_RANGE:\n            return Fetched([], reading.range.end)\n",
        _FETCH,
    ),
    Mutant(
        "tasks that share all ranges",
        "driver/spark.py",
        "heapq.heappush(heap, (events + total(part), number))",
        "heapq.heappush(heap, (0, number))",
        "tests/unit/writer/test_shares.py",
    ),
)
KAFKA_READ: Final = (
    Mutant(
        "only what transactions have committed",
        "read/fetch.py",
        "_READ_COMMITTED: Final = 1",
        "_READ_COMMITTED: Final = 0",
        f"{_CONTRACT}::test_aborted_transactions_are_left_out_and_the_end_is_found_behind_them",
    ),
    Mutant(
        "the cap of a record's headers, as the gateway writes them",
        "read/record_headers.py",
        " & (sizes <= _MOST_RECEIVED_AT)",
        "",
        f"{_CONTRACT}::test_f46_headers_that_are_too_large_are_not_carried_and_all_others_are",
    ),
    Mutant(
        "the cap of a record's headers, of any other form",
        "model/records.py",
        ' + len(received_at or b"") > wire.MOST_HEADER_BYTES',
        ' + len(received_at or b"") > 16 * wire.MOST_HEADER_BYTES',
        f"{_CONTRACT}::test_f46_headers_that_are_too_large_are_not_carried_and_all_others_are",
    ),
    Mutant(
        "headers that nobody reads are not walked",
        "read/record_headers.py",
        "        if count > wire.MOST_HEADERS:\n            return Headers(LARGE, None)\n",
        "",
        f"{_UNIT}/test_many_headers.py",
    ),
    Mutant(
        "who looks at single records fetches no others",
        "kafka/cluster.py",
        "        self._looker.pause(*self._looker.assignment())\n",
        "",
        f"{_CONTRACT}::test_a_look_at_single_records_goes_on_fetching_nothing",
    ),
    Mutant(
        "a worker that has read all that Spark sends lives on",
        "settle/task.py",
        "for number in numbers for p in",
        "for number in [next(numbers)] for p in",
        "tests/e2e/test_path.py::test_batches_share_their_python_workers_and_with_them_their_connections",
    ),
)
