"""Jars are used only as locked, downloaded once, and whole or not at all."""

import hashlib
import threading
from pathlib import Path

import pytest

from stack import jars
from stack.errors import UnavailableError
from stack.jars import LOCK_FILE, ensure_jars, read_lock

GOOD = b"a jar's bytes"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    digest = hashlib.sha256(GOOD).hexdigest()
    text = "".join(
        f'{{ coordinates = "org.example:{name}:1.0", sha256 = "{digest}" }},' for name in ("a", "b", "c")
    )
    path = tmp_path / "jars.lock"
    path.write_text(f"[tools]\njars = [{text}]\n", "utf-8")
    return path


class Shop:
    """Where jars come from, instead of the network: it counts and can be broken."""

    def __init__(self, content: bytes = GOOD) -> None:
        self.content = content
        self.asked: list[str] = []
        self.failures = 0
        self._lock = threading.Lock()

    def fetch(self, coordinates: str, scratch: Path) -> Path:
        with self._lock:
            self.asked.append(coordinates)
            if self.failures:
                self.failures -= 1
                raise OSError("connection reset")
        path = scratch / coordinates.replace(":", "-")
        path.write_bytes(self.content)
        return path


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop()
    monkeypatch.setattr(jars, "fetch", shop.fetch)
    return shop


def test_present_jars_are_not_downloaded_again(lock: Path, shop: Shop, tmp_path: Path) -> None:
    first = ensure_jars("tools", lock_file=lock, folder=tmp_path)
    assert [path.read_bytes() for path in first] == [GOOD] * 3
    assert len(shop.asked) == 3
    assert ensure_jars("tools", lock_file=lock, folder=tmp_path) == first
    assert len(shop.asked) == 3


def test_a_damaged_jar_is_replaced(lock: Path, shop: Shop, tmp_path: Path) -> None:
    [_, second, _] = ensure_jars("tools", lock_file=lock, folder=tmp_path)
    second.write_bytes(b"damaged")
    ensure_jars("tools", lock_file=lock, folder=tmp_path)
    assert second.read_bytes() == GOOD
    assert shop.asked[3:] == ["org.example:b:1.0"]


def test_another_content_is_refused_and_not_kept(lock: Path, shop: Shop, tmp_path: Path) -> None:
    shop.content = b"somebody else's bytes"
    with pytest.raises(UnavailableError, match="the locked one is"):
        ensure_jars("tools", lock_file=lock, folder=tmp_path)
    assert list(tmp_path.glob("*.jar")) == []
    assert list(tmp_path.glob(".download-*")) == []


def test_a_passing_failure_is_tried_again(lock: Path, shop: Shop, tmp_path: Path) -> None:
    shop.failures = 2
    assert len(ensure_jars("tools", lock_file=lock, folder=tmp_path)) == 3


def test_a_lasting_failure_says_what_to_check(lock: Path, shop: Shop, tmp_path: Path) -> None:
    shop.failures = 100
    with pytest.raises(UnavailableError, match=r"connection reset.*\n.*reaches Maven Central"):
        ensure_jars("tools", lock_file=lock, folder=tmp_path)


def test_concurrent_calls_download_each_jar_once(lock: Path, shop: Shop, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=ensure_jars, args=("tools",), kwargs={"lock_file": lock, "folder": tmp_path})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(shop.asked) == ["org.example:a:1.0", "org.example:b:1.0", "org.example:c:1.0"]


def test_the_committed_lock_names_the_versions_that_belong_together() -> None:
    names = {jar.coordinates for jar in read_lock("broker", LOCK_FILE)}
    assert "org.apache.kafka:kafka_2.13:4.2.0" in names
    assert "org.apache.kafka:kafka-clients:4.2.0" in names
    assert all(len(jar.sha256) == 64 for jar in read_lock("broker", LOCK_FILE))
