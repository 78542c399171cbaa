"""`make bench-cdc`: delay from a commit at a source to the public row, and changes per second.

`latency-1`, `latency-20`: 1,000 transactions a second in an open loop, into one table and into twenty.
`transaction`: one of 100,000 rows.  `backlog`: changes that wait on Kafka, landed and merged.  `snapshot`: a
million rows that are there already, under writes.  `connect`: Kafka Connect with three sources, its start
and its memory.  `crash`: a source's Postgres is killed and comes back.  `dead`: one of two sources is dead.
All stand on the same stack, in this order, and each ends by EXCEPT ALL both ways.  `source`: what the agent
costs a source's server.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from loadtest import cdc_page
from loadtest.cdc_parts import PARTS
from loadtest.cdc_stack import cdc_stack
from loadtest.report import machine, versions

_ADDITIONS: Final = 20_000_000


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(
        "python -m loadtest.bench_cdc",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may come several times")
    parser.add_argument("--rate", type=float, default=1_000.0, help="transactions a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load; the first fifth warms up")
    parser.add_argument("--transaction", type=int, default=100_000, help="rows of the one transaction")
    parser.add_argument("--backlog", type=int, default=500_000, help="changes, in thousands")
    parser.add_argument("--backlog-tables", type=int, default=4)
    parser.add_argument("--snapshot", type=int, default=1_000_000, help="rows that are there already")
    parser.add_argument("--crashes", type=int, default=3)
    parser.add_argument("--polls", type=int, default=60, help="at a source, one a second")
    parser.add_argument("--table-counts", type=int, nargs="+", default=[50, 3_000])
    parser.add_argument("--settle", type=float, default=10.0, help="seconds until memory is looked at")
    parser.add_argument("--keep", action="store_true", help="keep the results, and make the page of them")
    return parser.parse_args(given)


def measure(
    args: argparse.Namespace, folder: Path, server_settings: Mapping[str, str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each part's name and result, from one stack in `folder`.  Raise if rows differ."""
    with cdc_stack(folder, server_settings) as on:
        for name in [part for part in PARTS if part in (args.only or PARTS)]:
            before = os.getloadavg()[0]
            speed = seconds_of_additions()
            found = PARTS[name](on, args)
            yield (
                name,
                found
                | {
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "load_average_before": round(before, 2),
                    "additions_s": round(speed, 2),
                },
            )


def seconds_of_additions(additions: int = _ADDITIONS) -> float:
    """Return the CPU seconds of a loop of additions, as a measure of the machine's current speed."""
    began, total = time.process_time(), 0
    for i in range(additions):
        total += i
    return time.process_time() - began


def main() -> None:
    """Run the parts and print JSON; `--keep` makes them the committed results."""
    args = arguments()
    about = {
        "machine": machine(),
        "versions": versions(),
        "command": " ".join(["python -m loadtest.bench_cdc", *sys.argv[1:]]),
    }
    with tempfile.TemporaryDirectory(prefix="onramp-bench-") as folder:
        for name, found in measure(args, Path(folder)):
            print(json.dumps({name: found}, indent=1), flush=True)
            if args.keep:
                cdc_page.keep(name, found | about)


if __name__ == "__main__":
    main()
