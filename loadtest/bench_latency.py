"""``make bench-latency``: time from an event's due time until another connection reads its row.

1,000 single events a second, open loop, over 40 event names and one more every ten seconds:
100 after ten minutes, as many as a key may bring into the world by itself.  A row is visible
when a connection of its own sees the ledger beyond its offset: the ledger moves in the rows'
own transaction.  It is asked every 10 ms and the moment is noted after the answer, so the
figures err upwards.

`--absent-tables 2000` sends as many additional packets every ten seconds, past the gateway, of which each
names another table that does not exist: what their neighbours wait for is to stay within two seconds.

The first minute (JVM and tables are new) and the first event of each later name (topic
and table are made for it) are distinguished.
"""

import argparse
import bisect
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg2
from psycopg2.extensions import connection

from loadtest import latency_page, report
from loadtest.absent_tables import EVERY_SECONDS, Bursts
from loadtest.background import repeatedly
from loadtest.measure import spread
from loadtest.pages import RESULTS
from loadtest.target import Target, embedded

COLD_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01
_PATIENCE_SECONDS: Final = 120.0
_LEDGER: Final = "SELECT topic, partition, next_offset FROM onramp.ledger WHERE topic LIKE 'events.latency%'"

Partition = tuple[str, int]


class Ledgers:
    """The first time at which the ledger of each partition was read at each offset."""

    def __init__(self, connection: connection) -> None:
        self._connection = connection
        self.progress: dict[Partition, list[tuple[int, float]]] = defaultdict(list)
        self.poll_times: list[float] = []

    def passed(self, partition: Partition, offset: int) -> float | None:
        """Return the time at which `offset` was first read as settled."""
        line = self.progress.get(partition, [])
        index = bisect.bisect_right(line, (offset, float("inf")))
        return line[index][1] if index < len(line) else None

    def poll(self) -> None:
        """Take a reading now."""
        with self._connection.cursor() as cursor:
            cursor.execute(_LEDGER)
            rows, now = cursor.fetchall(), time.monotonic()
        self.poll_times.append(now)
        for topic, partition, offset in rows:
            line = self.progress[topic, partition]
            if not line or line[-1][0] < offset:
                line.append((offset, now))


@dataclass(frozen=True, slots=True)
class Sent:
    """An accepted event."""

    due: float
    answered: float
    name: str
    partition: Partition
    offset: int


def main() -> None:
    """Run and print JSON; ``--out`` stores it."""
    parser = argparse.ArgumentParser(
        "python -m loadtest.bench_latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rate", type=float, default=1_000.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--names", type=int, default=40, help="event names at first")
    parser.add_argument(
        "--fresh-every", type=float, default=10.0, help="seconds from one new name to the next"
    )
    parser.add_argument(
        "--absent-tables", type=int, default=0, help="additional packets for absent tables, every ten seconds"
    )
    parser.add_argument("--out", type=Path, help="write the figures there too")
    args = parser.parse_args()
    with embedded(1) as target:
        result = measure(target, args)
    figures = json.dumps(result, indent=1)
    print(figures)
    if args.out:
        args.out.write_text(figures + "\n", "utf-8")
    if args.seconds >= 600 and not args.out and not args.absent_tables:  # noqa: PLR2004 - the whole length of the bench
        (RESULTS / latency_page.RESULT).write_text(figures + "\n", "utf-8")
        latency_page.write()
    if result["rows_not_seen"] or result["refused"]:
        sys.exit("Events were refused or their rows were not seen: the figures are not sound.")


def measure(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """Send, watch, compare."""
    with closing(psycopg2.connect(target.dsn, application_name="onramp-bench")) as conn:
        conn.autocommit = True
        ledgers = Ledgers(conn)
        bursts = Bursts(target, args.absent_tables) if args.absent_tables else None
        beside = repeatedly(EVERY_SECONDS, bursts.send) if bursts else nullcontext()
        with repeatedly(_POLL_SECONDS, ledgers.poll):
            with beside:
                lines = send(target, args)
            sent = [
                Sent(due, answered, name, (topic, p), offset)
                for due, answered, name, *r in lines
                if r
                for topic, p, offset in [r]
            ]
            _wait(ledgers, sent)
        return _report(args, lines, sent, ledgers) | ({"absent_tables": bursts.sent} if bursts else {})


def send(target: Target, args: argparse.Namespace) -> list[Any]:
    """Return the generator's record of each event, from a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        out, order = Path(folder) / "sent.json", Path(folder) / "order.json"
        asked = {
            "port": int(target.url.rsplit(":", 1)[1]),
            "api_key": target.api_key,
            "rate": args.rate,
            "seconds": args.seconds,
            "names": args.names,
            "fresh_every_s": args.fresh_every,
            "out": str(out),
        }
        order.touch(mode=0o600)
        order.write_text(json.dumps(asked), "utf-8")
        subprocess.run([sys.executable, "-m", "loadtest.open_loop", str(order)], check=True)
        lines: list[Any] = json.loads(out.read_text("utf-8"))
        return lines


def _wait(ledgers: Ledgers, sent: list[Sent]) -> None:
    """Watch until every event's row was read, or the time is over."""
    last = {s.partition: s.offset for s in sent}
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until and any(ledgers.passed(p, o) is None for p, o in last.items()):
        time.sleep(_POLL_SECONDS)


def _report(args: argparse.Namespace, lines: list[Any], sent: list[Sent], ledgers: Ledgers) -> dict[str, Any]:
    seen = [(s, seen_at) for s in sent if (seen_at := ledgers.passed(s.partition, s.offset)) is not None]
    warm_from = sent[0].due + min(COLD_SECONDS, args.seconds / 3)
    first = {s.name: s for s in reversed(sent)}
    groups: dict[str, list[tuple[Sent, float]]] = {"cold": [], "warm": [], "new_name": []}
    for s, seen_at in seen:
        is_new = first[s.name] is s
        groups["cold" if s.due < warm_from else "new_name" if is_new else "warm"].append((s, seen_at))
    return {
        "events": len(lines),
        "refused": len(lines) - len(sent),
        "rows_not_seen": len(sent) - len(seen),
        "names": len(first),
        **{
            f"{name}_request_to_row_ms": spread(_seconds([(s.due, seen_at) for s, seen_at in g]))
            for name, g in groups.items()
        },
        **{
            f"{name}_request_ms": spread(_seconds([(s.due, s.answered) for s, _ in groups[name]]))
            for name in ("cold", "warm")
        },
        "looks_apart_ms": spread(_seconds(list(pairwise(ledgers.poll_times)))),
        "machine": report.machine(),
        "versions": report.versions(),
        "command": "python -m loadtest.bench_latency " + " ".join(sys.argv[1:]),
    }


def _seconds(spans: list[tuple[float, float]]) -> Any:
    return np.array([end - start for start, end in spans])


if __name__ == "__main__":
    main()
