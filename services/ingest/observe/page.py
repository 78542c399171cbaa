"""Renders the page ``/metrics``.

With several workers each process counts in files of a shared folder, and any worker answers for all
(`PROMETHEUS_MULTIPROC_DIR`, set by `__main__`).
"""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from services.ingest.observe.metrics import REGISTRY
from services.ingest.observe.tallies import fold


def exposition(new_s: float = 0.0) -> bytes:
    """Return all metrics in Prometheus' text format, combined if there are several workers.

    A counter that began less than `new_s` seconds ago is shown at 0. Reading has no side effect.
    """
    fold(new_s)
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return generate_latest(REGISTRY) if folder is None else _of_all_workers(Path(folder))


def _of_all_workers(folder: Path) -> bytes:
    _reap(folder)
    all_workers = CollectorRegistry()
    MultiProcessCollector(all_workers, path=str(folder))  # type: ignore[no-untyped-call]
    return generate_latest(all_workers)


def _reap(folder: Path) -> None:
    """Remove the live gauges of dead workers: uvicorn does not report their end."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not Path(f"/proc/{pid}").exists():
            mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]
