"""Segments: whole or not there, read by row groups that are needed, and damage is of those events alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from services.admin.segments import segment
from services.admin.segments.folder import Segments
from services.admin.segments.segment import Row
from services.admin.segments.storage_errors import unavailable
from shared.errors import SEGMENT_DAMAGED, SEGMENT_MISSING, STORE_UNAVAILABLE, InfrastructureError, UserError

NAME = "installation/1-60.parquet"
#: Three groups of 20 events, each of them larger than a row group.
ROWS = [Row(group, group + 3 * n, os.urandom(60_000)) for group in (1, 2, 3) for n in range(20)]
WANTED = {row.event: row.group for row in ROWS}
#: What pyarrow loads by the way, when it is asked for it: tens of megabytes.
FRUGAL = """
import sys
from services.admin.segments import segment
from services.admin.segments.folder import Segments
store = Segments(sys.argv[1])
segment.write(store, "a/b.parquet", [segment.Row(1, n, b"x" * n) for n in range(9)])
assert segment.read(store, "a/b.parquet", {2: 1}).values == {2: b"xx"}
assert list(segment.read_all(store, "a/b.parquet"))[0].value == b""
print([name for name in ("pandas", "pyarrow.compute") if name in sys.modules])
"""


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    found = Segments(str(tmp_path))
    assert segment.write(found, NAME, iter(ROWS)).events == 60
    return found


def test_a_segment_is_written_and_read_without_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FRUGAL, str(tmp_path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "[]"


def test_segment_is_read_whole_or_by_the_needed_row_groups_alone(segments: Segments) -> None:
    assert list(segment.read_all(segments, NAME)) == ROWS
    whole = segment.read(segments, NAME, WANTED)
    assert (whole.values, whole.lost) == ({r.event: r.value for r in ROWS}, {})
    last = ROWS[-1]
    one = segment.read(segments, NAME, {last.event: last.group})
    assert (one.values, one.row_groups) == ({last.event: last.value}, 1)
    of_group = segment.read(segments, NAME, {e: g for e, g in WANTED.items() if g == 2})
    assert len(of_group.values) == 20
    assert of_group.row_groups < whole.row_groups


def test_a_missing_file_is_named_and_a_folder_that_is_away_is_waited_for(
    segments: Segments, tmp_path: Path
) -> None:
    lost = segment.read(segments, "installation/other.parquet", {1: 1}).lost
    assert (lost[1].fault, "installation/other.parquet" in lost[1].detail) == (SEGMENT_MISSING, True)
    away = Segments(str(tmp_path / "not" / "mounted"))
    with pytest.raises(InfrastructureError) as error:
        segment.read(away, NAME, {1: 1})
    assert error.value.fault is STORE_UNAVAILABLE


class _GoesAway:
    """A folder whose files fail from the second read on, as if it was unmounted."""

    def __init__(self, fs: Any, error: OSError) -> None:
        self._fs, self._error = fs, error
        self._reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open_input_file(self, path: str) -> "_GoesAway":
        return _GoesAway(self._fs.open_input_file(path), self._error)

    def read_at(self, count: int, at: int) -> bytes:
        self._reads += 1
        if self._reads > 3:
            raise self._error
        found: bytes = self._fs.read_at(count, at)
        return found


def _going_away(segments: Segments, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    fs, base = segments._open()
    monkeypatch.setattr(segments, "_opened", (_GoesAway(fs, error), base))


@pytest.mark.parametrize(
    "error",
    [
        OSError(116, "Stale file handle"),
        OSError("AWS Error NETWORK_CONNECTION during GetObject"),
        OSError("AWS Error UNKNOWN (HTTP status 503) during GetObject operation: No response body."),
        OSError("a bucket's server said what nobody foresaw"),
    ],
)
def test_a_folder_that_goes_away_in_mid_read_has_damaged_nothing(
    segments: Segments, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    _going_away(segments, monkeypatch, error)
    with pytest.raises(InfrastructureError) as told:
        segment.read(segments, NAME, WANTED)
    assert told.value.fault is STORE_UNAVAILABLE
    with pytest.raises(InfrastructureError):
        list(segment.read_all(segments, NAME))


def test_a_file_that_is_removed_in_mid_read_is_missing_and_not_damaged(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = "When reading: AWS Error NO_SUCH_KEY during GetObject operation: The specified key does not exist."
    _going_away(segments, monkeypatch, OSError(gone))
    found = segment.read(segments, NAME, WANTED)
    assert {why.fault for why in found.lost.values()} == {SEGMENT_MISSING}
    assert found.lost.keys() | found.values.keys() == WANTED.keys()


def test_a_write_that_fails_half_way_leaves_no_file(segments: Segments, tmp_path: Path) -> None:
    def rows() -> Iterator[Row]:
        yield from ROWS
        raise UserError(SEGMENT_DAMAGED, "what these rows are read from")

    with pytest.raises(UserError):
        segment.write(segments, "installation/half.parquet", rows())
    assert segments.names("installation") == [NAME]
    assert [file.name for file in (tmp_path / "installation").iterdir()] == [Path(NAME).name]


def test_bucket_error_shows_the_s3_code_and_nothing_else() -> None:
    error = OSError(
        "When x in bucket 'b': AWS Error NO_SUCH_BUCKET during PutObject operation: key AKIA, abc"
    )
    said = unavailable(error).detail
    assert "(ONRAMP_ADMIN_STORE): S3 says NO_SUCH_BUCKET: create the bucket" in said
    assert "AKIA" not in said


def test_damage_loses_the_events_of_its_row_group_alone(segments: Segments, tmp_path: Path) -> None:
    file = tmp_path / NAME
    data = bytearray(file.read_bytes())
    at = data.index(ROWS[0].value[:64])  # random bytes are stored as they are
    data[at + 30_000] ^= 1
    file.write_bytes(data)
    found = segment.read(segments, NAME, WANTED)
    assert {why.fault for why in found.lost.values()} == {SEGMENT_DAMAGED}
    assert ROWS[0].event in found.lost
    assert ROWS[-1].event in found.values
    assert found.lost.keys() | found.values.keys() == WANTED.keys()
    assert found.lost.keys().isdisjoint(found.values)
    with pytest.raises(UserError):
        list(segment.read_all(segments, NAME))


@pytest.mark.parametrize("keep", [0, 3, 1000, -9])
def test_a_file_that_was_cut_is_damaged(segments: Segments, tmp_path: Path, keep: int) -> None:
    file = tmp_path / NAME
    file.write_bytes(file.read_bytes()[:keep])
    assert {w.fault for w in segment.read(segments, NAME, WANTED).lost.values()} == {SEGMENT_DAMAGED}


@pytest.mark.parametrize(
    ("columns", "statistics"),
    [
        ({"group": [1], "event": [1], "value": [b"x"]}, False),
        ({"group": ["1"], "event": ["1"], "value": [b"x"]}, True),
        ({"group": [1]}, True),
        ({"event": [1], "value": [b"x"]}, True),
    ],
)
def test_another_parquet_file_of_its_name_is_damage(
    segments: Segments, tmp_path: Path, columns: dict[str, Any], *, statistics: bool
) -> None:
    parquet.write_table(pa.table(columns), tmp_path / NAME, write_statistics=statistics)
    found = segment.read(segments, NAME, WANTED)
    assert (found.values, {e.fault for e in found.lost.values()}) == ({}, {SEGMENT_DAMAGED})
    with pytest.raises(UserError) as error:
        list(segment.read_all(segments, NAME))
    assert error.value.fault is SEGMENT_DAMAGED


def test_an_event_that_is_in_none_of_its_row_groups_is_damage(segments: Segments) -> None:
    assert segment.read(segments, NAME, {99_999: 1}).lost[99_999].fault is SEGMENT_DAMAGED


def test_partly_written_segment_is_removed(segments: Segments) -> None:
    def rows() -> object:
        yield ROWS[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(InfrastructureError) as error:
        segment.write(segments, "installation/2.parquet", rows())  # type: ignore[arg-type]
    assert "No space left" in error.value.detail
    assert segments.names("installation") == [NAME]
    segments.remove(NAME)
    segments.remove(NAME)
    assert segments.names("installation") == segments.names("never") == []
