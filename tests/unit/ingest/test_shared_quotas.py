"""Quotas of several workers: one file, no additional tokens, and no wait for a dead worker."""

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from services.ingest.auth import quota_levels
from services.ingest.auth.quota_levels import Levels, bucket_name
from services.ingest.auth.quotas import QuotaError, Quotas

_HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "quotas"
    with file.open("wb") as made:
        made.truncate(quota_levels.SIZE)
    return file


def test_workers_share_a_quota(file: Path) -> None:
    here, there = (Quotas(1, Levels(file), lambda: 100.0) for _ in range(2))
    here.with_limits("shop", 10, None).charge(19, 0)
    there.with_limits("shop", 10, None).admit()
    there.with_limits("shop", 10, None).charge(1, 0)
    for quotas in (here, there):
        with pytest.raises(QuotaError, match="events"):
            quotas.with_limits("shop", 10, None).admit()
        quotas.with_limits("other", 10, None).admit()


def test_copies_have_their_parts() -> None:
    quota = Quotas(4, clock=lambda: 100.0).with_limits("shop", 40, None)
    quota.charge(20, 0)
    with pytest.raises(QuotaError):
        quota.admit()


def test_quota_is_consumed_under_the_file_lock(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, taken = Levels(file), []
    real = Levels._slot

    def seen(self: Levels, name: bytes, now: float) -> tuple[int, float]:
        with file.open("r+b") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                taken.append("locked")
        return real(self, name, now)

    monkeypatch.setattr(Levels, "_slot", seen)
    shared.consume(bucket_name("a"), 1, 100)
    assert taken == ["locked"]


def test_worker_stopped_or_dead_with_the_lock_does_not_block_other_workers(file: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        shared, name = Levels(file), bucket_name("a")
        taking = threading.Thread(target=shared.consume, args=(name, 5, 100), daemon=True)
        taking.start()
        taking.join(60)
        assert shared.full_at(name) == 105
    finally:
        holder.kill()
        holder.communicate()
    assert quota_levels._try_lock(shared._lock or 0)


def test_only_buckets_that_are_full_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_levels, "_SLOTS", quota_levels._PROBES)
    shared = Levels()
    names = [bucket_name(n) for n in range(quota_levels._PROBES)]
    for n, name in enumerate(names):
        shared.consume(name, 1 if n == 3 else 50, 100)
    new = bucket_name("new")
    shared.consume(new, 7, 110)
    assert shared.full_at(new) == 117
    assert [shared.full_at(name) for name in names] == [150.0] * 3 + [0.0] + [150.0] * 4


@pytest.mark.parametrize("rate", [5e-324, 1e-308, 1e-9, 1e-6, 1e308, float("inf")])
def test_a_rate_of_any_size_is_one(rate: float) -> None:
    quota = Quotas(3, clock=lambda: 100.0).with_limits("shop", rate, rate)
    quota.admit()
    quota.charge(1000, 1 << 30)
    if rate > 1:
        quota.admit()
        return
    with pytest.raises(QuotaError) as raised:
        quota.admit()
    assert raised.value.retry_after == 86_400
