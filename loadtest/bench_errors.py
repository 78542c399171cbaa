"""``make bench-errors``: a million parked events in 2,000 groups: stored, read, discarded, replayed.

Records as the writer parks them are put on `onramp.user_errors` of an embedded stack, whose admin service
keeps them.  Then pages are asked over the socket, all are discarded and restored, a tenth is replayed as it
is and a tenth with a fix, and another tenth while 1,000 live events a second land: their latency before the
replay and during it is of the same run.  `--typed` runs `bench_writer --case typed-bad-1%` with and without
an admin service, in turns.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import psycopg2
from confluent_kafka import Producer

from loadtest import errors_page, report
from loadtest.background import repeatedly
from loadtest.bench_latency import Ledgers, send
from loadtest.measure import spread
from loadtest.pages import RESULTS
from loadtest.target import Target, embedded, way_to
from shared import wire
from stack.part_process import answers_ok

#: The size of a whole run; a smaller one is a trial and is not stored.
WHOLE: Final = 1_000_000
_NAMES: Final = 10
_CODE: Final = "data_rejected"
_POLL_SECONDS: Final = 0.2
_FIRST_OFFSET: Final = 10_000_000
_WARM_SECONDS: Final = 20.0
#: A parked event and its reason.
ParkedRecord = tuple[bytes, dict[str, Any]]
#: The fix by an operator when a sender has renamed a field.
_FIX: Final = {"rename": "/n", "to": "/number"}


def answer_of(
    conn: http.client.HTTPConnection, method: str, path: str, body: str | None, headers: dict[str, str]
) -> http.client.HTTPResponse:
    """Return the answer; a GET is repeated on a new connection if the service has closed an idle one."""
    try:
        conn.request(method, path, body, headers)
        return conn.getresponse()
    except ConnectionError:
        if method != "GET":
            raise
        conn.close()
        conn.request(method, path, body, headers)
        return conn.getresponse()


class AdminClient:
    """The admin service over one connection that stays open."""

    def __init__(self, target: Target) -> None:
        self._conn = http.client.HTTPConnection(target.admin.removeprefix("http://"), timeout=60)
        self._key = {"Authorization": f"Bearer {target.operator_key}"} if target.operator_key else {}

    def ask(self, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """GET, or POST of a document; return the answer."""
        body = json.dumps(document) if document else None
        kind = {"Content-Type": "application/json"} if document else {}
        answer = answer_of(self._conn, "POST" if document else "GET", path, body, kind | self._key)
        found: dict[str, Any] = json.loads(answer.read())
        if answer.status >= http.client.BAD_REQUEST:
            raise SystemExit(f"{path} answered {answer.status}: {found}")
        return found

    def change(self, path: str, document: dict[str, Any], reason: str) -> None:
        """PUT a document over the state that is in force."""
        answer = answer_of(self._conn, "GET", path, None, self._key)
        answer.read()
        headers = {"Content-Type": "application/json", "If-Match": answer.headers["ETag"] or "", **self._key}
        self._conn.request("PUT", f"{path}?reason={reason}&actor=bench", json.dumps(document), headers)
        answer = self._conn.getresponse()
        said = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise SystemExit(f"{path} answered {answer.status}: {said[:400]!r}")

    def job(self, kind: str, fix: dict[str, Any] | None = None, **filters: Any) -> dict[str, Any]:
        """Discard, restore or replay a set; return the job and its events per second."""
        asked = {"kind": kind, "filters": filters, "actor": "bench", "reason": "bench"}
        asked |= {"fix": fix} if fix else {}
        self._conn.close()  # the service closes what was idle; it is opened again by itself
        began = time.perf_counter()
        job = self.ask("/v1/jobs", asked)
        counted_s = time.perf_counter() - began
        while job["state"] == "running":
            time.sleep(_POLL_SECONDS)
            job = self.ask(f"/v1/jobs/{job['id']}")
        seconds = time.perf_counter() - began
        figures = {name: job[name] for name in ("counted", "changed", "failed", "state")}
        return figures | {
            "seconds": round(seconds, 1),
            "counting_s": round(counted_s, 2),
            "per_s": round(job["changed"] / seconds),
        }


class Memory:
    """The maximum memory (RSS, MiB) of the admin service in each phase."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.phase = ""
        self.peak: dict[str, float] = {}

    def sample(self) -> None:
        """Take a reading now."""
        with suppress(psutil.Error):
            now = round(self._process.memory_info().rss / 2**20, 1)
            self.peak[self.phase] = max(self.peak.get(self.phase, 0.0), now)


def park(target: Target, events: int, groups: int, size: int) -> None:
    """Put records on the topic of parked events, as the writer does."""
    generations = _generations(target)
    columns = groups // _NAMES

    def record(n: int) -> ParkedRecord:
        name = _name(n)
        return parked_record(n, name, generations[name], f"c{n // _NAMES % columns}", size)

    send_parked(target.bootstrap, map(record, range(events)))


def send_parked(bootstrap: str, records: Iterable[ParkedRecord]) -> None:
    """Put parked events on their topic, and return when Kafka holds them."""
    producer = Producer({**way_to(bootstrap), "linger.ms": 20})
    for value, reason in records:
        headers = [("onramp-error", json.dumps(reason).encode())]
        while True:
            try:
                producer.produce(wire.USER_ERRORS, value, reason["id"], headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def parked_record(n: int, name: str, topic_id: str, column: str, size: int) -> ParkedRecord:
    """Return a parked event, and its reason as the writer gives it: one of the group of `column`."""
    metadata = {"id": f"{name}-{n}", "timestamp": "2026-11-21T08:00:00Z", "version": "1"}
    event = {"metadata": metadata, "event_name": name, "payload": {"n": n, "note": ""}}
    event["payload"]["note"] = random.randbytes(max(size - 120, 2) // 2).hex()  # noqa: S311 - no secret
    reason = {
        "topic": wire.topic_of(name),
        "topic_id": topic_id,
        "partition": 0,
        "offset": _FIRST_OFFSET + n,
        "code": _CODE,
        "kind": "parked",
        "step": "persist",
        "detail": "column too small",
        "sqlstate": "22001",
        "column": column,
        "destination": f"onramp.events.{name}",
        "id": f"{name}-{n}",
        "event_name": name,
        "typed": False,
        "received_at": "2026-11-21T08:00:00.123456Z",
        "timestamp": "2026-11-21T08:00:01.123456Z",
    }
    return json.dumps(event).encode(), reason


def _name(n: int) -> str:
    """Return one of the event names of live events (open_loop.py)."""
    return f"latency_{n % _NAMES:04d}"


def _generations(target: Target) -> dict[str, str]:
    """Create the topic and the table of each event type; return the topics' ids."""
    _live(target, rate=50, seconds=2, names=_NAMES)
    with closing(psycopg2.connect(target.dsn)) as conn, conn.cursor() as cursor:
        for _ in range(600):
            cursor.execute("SELECT DISTINCT topic, topic_id::text FROM onramp.ledger WHERE next_offset > 0")
            found = {topic.removeprefix("events."): of for topic, of in cursor.fetchall()}
            conn.rollback()
            if all(_name(n) in found for n in range(_NAMES)):
                return found
            time.sleep(_POLL_SECONDS)
    raise SystemExit("the live events of the first seconds did not land")


def _live(target: Target, *, rate: float, seconds: float, names: int) -> list[Any]:
    asked = argparse.Namespace(rate=rate, seconds=seconds, names=names, fresh_every=1e9)
    return send(target, asked)


def keep(target: Target, client: AdminClient, args: argparse.Namespace) -> dict[str, Any]:
    """Park events, and measure how fast they are stored, from the first fifth to the last."""
    before = client.ask("/readyz")["stored"]
    parking = threading.Thread(target=park, args=(target, args.events, args.groups, args.size))
    parking.start()
    line: list[tuple[float, int]] = [(time.perf_counter(), 0)]
    while line[-1][1] < args.events:
        time.sleep(_POLL_SECONDS)
        line.append((time.perf_counter(), client.ask("/readyz")["stored"] - before))
    parking.join()
    start = next((at, n) for at, n in line if n >= args.events / 5)
    seconds = line[-1][0] - start[0]
    return {"kept_per_s": round((line[-1][1] - start[1]) / seconds), "seconds": round(seconds, 1)}


def pages(client: AdminClient, times: int) -> dict[str, Any]:
    """Request groups, pages and events by id, each `times` times; return milliseconds."""
    groups = [g["id"] for g in client.ask("/v1/groups?limit=500")["groups"]]
    last = client.ask("/v1/events?limit=1")["events"][0]["id"]
    pick = random.Random(1)  # noqa: S311 - the same each time
    paths: dict[str, Callable[[], str]] = {
        "counts": lambda: "/v1/counts",
        "groups": lambda: "/v1/groups?limit=50",
        "open groups of a code": lambda: f"/v1/groups?limit=50&state=open&code={_CODE}",
        "one group, ten samples": lambda: f"/v1/groups/{pick.choice(groups)}",
        "page of events": lambda: "/v1/events?limit=50",
        "page of a group": lambda: f"/v1/events?limit=50&group={pick.choice(groups)}",
        "page of a name": lambda: f"/v1/events?limit=50&event_name={_name(pick.randrange(_NAMES))}",
        "page of a state": lambda: "/v1/events?limit=50&state=open",
        "event by its id": lambda: f"/v1/events?event_id={_name(n := pick.randrange(last))}-{n}",
        "event by its number": lambda: f"/v1/events/{pick.randint(1, last)}",
        "page behind a cursor": lambda: "/v1/events?limit=50&cursor=" + str(cursor[0]),
    }
    cursor = [client.ask("/v1/events?limit=50")["next"]]
    found = {}
    for what, path in paths.items():
        spans = []
        for _ in range(times):
            began = time.perf_counter()
            answer = client.ask(path())
            spans.append(time.perf_counter() - began)
            if what == "page behind a cursor":
                cursor[0] = answer["next"] or cursor[0]
        found[what] = spread(np.array(spans))
    return found


def live(target: Target, client: AdminClient, args: argparse.Namespace) -> dict[str, Any]:
    """Replay a tenth while live events land; return their latency before it and during it."""
    window: list[float] = []
    replayed: dict[str, Any] = {}

    def replay() -> None:
        time.sleep(_WARM_SECONDS + args.seconds)
        window.append(time.monotonic())
        replayed.update(client.job("replay", event_name=_name(1)))
        window.append(time.monotonic())

    with closing(psycopg2.connect(target.dsn, application_name="onramp-bench")) as conn:
        conn.autocommit = True
        ledgers = Ledgers(conn)
        acting = threading.Thread(target=replay)
        with repeatedly(0.01, ledgers.poll):
            acting.start()
            lines = _live(target, rate=args.rate, seconds=_WARM_SECONDS + 3 * args.seconds, names=20)
            acting.join()
            time.sleep(5)
        first = min(line[0] for line in lines)
    spans = [(due, ledgers.passed((r[0], r[1]), r[2])) for due, _, _, *r in lines if r]
    took = [(due, seen - due) for due, seen in spans if seen is not None]
    before = spread(np.array([s for due, s in took if first + _WARM_SECONDS < due < window[0]]))
    during = spread(np.array([s for due, s in took if window[0] <= due <= window[1]]))
    ratio = round(during["p99"] / before["p99"], 2) if before and during else None
    found = {"before_ms": before, "during_ms": during, "p99_ratio": ratio, "replay": replayed}
    return found | {"not_seen": len(lines) - len(took)}


def typed(events: int, pairs: int) -> dict[str, Any]:
    """Land `typed-bad-1%` with and without an admin service that stores its parked events, in turns."""
    without: list[float] = []
    beside: list[float] = []
    for _ in range(pairs):
        without.append(_typed_rate(events))
        beside.append(_typed_rate(events, "--admin"))
    slower = 1 - statistics.median(beside) / statistics.median(without)
    return {"without": without, "with": beside, "slower_percent": round(100 * slower, 1)}


def _typed_rate(events: int, *more: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        case = ["--case", "typed-bad-1%", "--events", str(events), "--repeats", "1", "--out", str(out)]
        command = [sys.executable, "-m", "loadtest.bench_writer", *case, *more]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return float(json.loads(out.read_text("utf-8"))["warm_rows_per_s"])


def measure(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """Run all of it."""
    port = int(target.admin.rpartition(":")[2])
    while not answers_ok(port, "/readyz"):
        time.sleep(_POLL_SECONDS)
    asked, memory = AdminClient(target), Memory(target.processes["admin"])
    phases: dict[str, Callable[[], dict[str, Any]]] = {
        "keep": lambda: keep(target, asked, args),
        "pages_ms": lambda: pages(asked, args.times),
        "discard": lambda: asked.job("discard", code=_CODE),
        "restore": lambda: asked.job("restore", code=_CODE),
        "replay": lambda: asked.job("replay", event_name=_name(0)),
        "replay_fixed": lambda: asked.job("replay", _FIX, event_name=_name(2)),
        "live": lambda: live(target, asked, args),
    }
    found: dict[str, Any] = {}
    with repeatedly(0.2, memory.sample):
        for memory.phase, act in phases.items():
            found[memory.phase] = act()
    replays = [found[name] for name in ("replay", "replay_fixed")]
    found["replays_per_s"] = round(sum(r["changed"] for r in replays) / sum(r["seconds"] for r in replays))
    return found | {"admin_rss_mib": max(memory.peak.values()), "rss_mib": memory.peak}


def main() -> None:
    """Run and print JSON; a whole run is stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=WHOLE)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--size", type=int, default=300, help="bytes of an event")
    parser.add_argument("--times", type=int, default=300, help="requests of each kind")
    parser.add_argument("--rate", type=float, default=1_000.0, help="live events a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="of live events before the replay")
    parser.add_argument("--typed", type=int, default=2_000_000, help="events of typed-bad-1%%; 0: none")
    parser.add_argument("--pairs", type=int, default=3, help="of typed-bad-1%%")
    parser.add_argument("--out", type=Path, help="write the figures there instead of keeping them")
    args = parser.parse_args()
    with embedded(1) as target:
        result = measure(target, args)
    if args.typed:
        result["typed"] = typed(args.typed, args.pairs)
    result |= {"events": args.events, "groups": args.groups, "bytes": args.size, "machine": report.machine()}
    result |= {"versions": report.versions(), "command": "make bench-errors " + " ".join(sys.argv[1:])}
    figures = json.dumps(result, indent=1) + "\n"
    print(figures)
    if args.out:
        args.out.write_text(figures, "utf-8")
    elif args.events >= WHOLE:
        (RESULTS / errors_page.RESULT).write_text(figures, "utf-8")
        errors_page.write()


if __name__ == "__main__":
    main()
