"""Makes the page of ``/metrics``.

With several workers each process counts in files of a shared folder and any of them answers for all
(`PROMETHEUS_MULTIPROC_DIR`, set by `__main__`).
"""

import math
import os
import time
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from services.ingest.observe.metrics import REGISTRY
from services.ingest.observe.tallies import fold


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format; those of all workers when there are several."""
    fold_tallies()
    began = time.monotonic()
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    page = generate_latest(REGISTRY) if folder is None else _of_all_workers(Path(folder))
    _LAST_PAGE.began(began)
    return page


def fold_tallies(*, is_last: bool = False) -> None:
    """Add to the metrics what was counted since the last call; all of it if it `is_last`."""
    fold(math.inf if is_last else _LAST_PAGE.when())


def _of_all_workers(folder: Path) -> bytes:
    _reap(folder)
    all_workers = CollectorRegistry()
    MultiProcessCollector(all_workers, path=str(folder))  # type: ignore[no-untyped-call]
    return generate_latest(all_workers)


class _LastPage:
    """When a worker last began to make a page, in monotonic seconds: a clock may be set back.

    Of several workers it is the time of a file that they share.
    """

    def __init__(self) -> None:
        self._began = 0.0

    def began(self, when: float) -> None:
        self._began = when
        if file := self._file():
            file.touch()
            os.utime(file, (when, when))

    def when(self) -> float:
        """Return it, 0 before the first page."""
        try:
            return file.stat().st_mtime if (file := self._file()) else self._began
        except FileNotFoundError:
            return 0.0

    @staticmethod
    def _file() -> Path | None:
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        return Path(folder) / "page" if folder else None


_LAST_PAGE: Final = _LastPage()


def _reap(folder: Path) -> None:
    """Remove the live gauges of workers that died: uvicorn does not say when one does."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not Path(f"/proc/{pid}").exists():
            mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]
