"""`make bench-lake`: delays of events on their way to Postgres, with and without the lake and its compaction.

Both loads are of one run, in turn, so their ratio is comparable on a busy machine too.  All event types have
a table in the lake.  The memory is the largest PSS of one of the lake's Python processes.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from loadtest import bench_latency
from loadtest.background import repeatedly
from loadtest.target import Target, embedded
from stack import services

_EVERY_SECONDS: Final = 1.0


class Memory:
    """The largest PSS of each kind of process, in MiB."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self.peaks: dict[str, float] = {}

    def poll(self) -> None:
        """Read the PSS of all processes once."""
        with suppress(psutil.NoSuchProcess):
            for process in (self._root, *self._root.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    name = process.name()
                    kind = "driver" if process.pid == self._root.pid else name
                    pss = process.memory_full_info().pss / 2**20
                    self.peaks[kind] = max(self.peaks.get(kind, 0.0), round(pss, 1))


@contextmanager
def lake(target: Target, folder: Path, peaks: dict[str, float]) -> Iterator[None]:
    """Run the lake service and its compaction; add the peaks of the lake's memory."""
    service = services.lake(bootstrap=target.bootstrap, folder=folder / "lake", log=folder / "lake.log")
    compaction = services.compaction(
        bootstrap=target.bootstrap, folder=folder / "lake", log=folder / "compaction.log"
    )
    with ExitStack() as stack:
        for each in (service, compaction):
            each.start()
            stack.callback(each.stop)
            each.wait_ready()
        memory = Memory(service.pid)
        with repeatedly(_EVERY_SECONDS, memory.poll):
            yield
        for kind, mib in memory.peaks.items():
            peaks[kind] = max(peaks.get(kind, 0.0), mib)


def main() -> None:
    """Measure in turn, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=1_000.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=45.0, help="of each load; a third warms up")
    parser.add_argument("--names", type=int, default=10, help="event types")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = argparse.Namespace(
        rate=args.rate,
        seconds=args.seconds,
        names=args.names,
        fresh_every=10 * args.seconds,
        absent_tables=0,
    )
    p99: dict[str, list[float]] = {"without": [], "with": []}
    peaks: dict[str, float] = {}
    with embedded(1) as target, tempfile.TemporaryDirectory() as name:
        bench_latency.measure(target, load)  # topics and tables are made
        for number in range(args.rounds):
            for kind in sorted(p99, reverse=number % 2 == 0):
                with lake(target, Path(name), peaks) if kind == "with" else ExitStack():
                    found = bench_latency.measure(target, load)
                if found["refused"] or found["rows_not_seen"]:
                    sys.exit("events were refused or their rows were not seen: the figures are not sound")
                p99[kind].append(found["warm_request_to_row_ms"]["p99"])
    ratios = [a / b for a, b in zip(p99["with"], p99["without"], strict=True)]
    figures = {
        "events_per_s": args.rate,
        "p99_ms": p99,
        "with_to_without_median": round(statistics.median(ratios), 2),
        "peak_pss_mib": peaks,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
