"""``make bench-ui``: the web UI with 500 event types, a million parked events and ten tabs.

An embedded stack gets one event of each type and partition, rows of ten types, ten transforms, and parked
events of as many groups as types; with `--lake` each type has a table of the lake as well.  Then each page is
asked for over the socket: its time, the CPU time of the admin service, and its bytes.  The statement reads
three databases, and journeys look for events by receipt and by id.  `--only` measures some pages alone.
"""

import argparse
import asyncio
import gzip
import html
import http.client
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import numpy as np
import psutil
import psycopg2

from loadtest import report, ui_page
from loadtest.bench_errors import AdminClient, ParkedRecord, answer_of, parked_record, send_parked
from loadtest.measure import spread
from loadtest.pages import RESULTS
from loadtest.target import Target, embedded
from services.admin.statements.period import Statements
from services.ops.statement.balance import Statement
from services.writer.postgres.database import Database
from services.writer.postgres.migrations import migrate
from shared import wire
from shared.kafka_security import Brokers
from shared.registry.transforms import digest_of_source
from stack.part_process import answers_ok

#: The size of a whole run; a smaller one is a trial and is not stored.
WHOLE: Final = 1_000_000
_TABLES: Final = 10
_TRANSFORMS: Final = 10
_PARTITIONS: Final = 6
_POLL_SECONDS: Final = 0.5
_TAB_SECONDS: Final = 5.0
_BATCH: Final = 100
#: Tables of a database's counts, which the statement reads.
_COUNTED: Final = ("onramp.ledger", "onramp.totals", "onramp.routed")
#: Pages that are found by a link: the page with the link, and its pattern.
_LINKED: Final = {
    "one group": ("/ui/parked", r"/ui/groups/\d+"),
    "one transform": ("/ui/transforms", r"/ui/transforms/\w+"),
    "a day of tracers": ("/ui/tracers", r"/ui/tracers/day[^\"]+"),
    "one job": ("/ui/jobs", r"/ui/jobs/\d+"),
}
_RECEIPTS: Final = "SELECT _topic, _partition, _offset, _id FROM events.{} ORDER BY random() LIMIT %s"


class Tab:
    """A browser's tab: one connection that stays open, and the bytes that it was sent."""

    def __init__(self, target: Target) -> None:
        self._conn = http.client.HTTPConnection(target.admin.removeprefix("http://"), timeout=60)
        self._tags: dict[str, str] = {}
        self._cookie = self._log_in(target.operator_key)

    def _log_in(self, key: str) -> str:
        """Return the cookie of a new session."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        self._conn.request("POST", "/ui/login", urlencode({"key": key}), headers)
        answer = self._conn.getresponse()
        answer.read()
        return (answer.headers["Set-Cookie"] or "").partition(";")[0]

    def get(self, path: str, **headers: str) -> tuple[bytes, bytes]:
        """Return the body as it was sent, and decompressed."""
        given = {"Accept-Encoding": "gzip", "Cookie": self._cookie, **headers}
        answer = answer_of(self._conn, "GET", path, None, given)
        sent = answer.read()
        if answer.status not in {http.client.OK, http.client.NOT_MODIFIED}:
            raise SystemExit(f"{path} answered {answer.status}: {sent[:400]!r}")
        if tag := answer.headers.get("ETag"):
            self._tags[path] = tag
        packed = answer.headers.get("Content-Encoding") == "gzip"
        return sent, gzip.decompress(sent) if packed else sent

    def send(self, path: str, **fields: str) -> str:
        """Send the form of a page; return the page that it leads to."""
        _, page = self.get(path)
        token = re.findall(r'name="token" value="([^"]+)"', page.decode())[-1]
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        body = urlencode({**fields, "token": token})
        self._conn.request("POST", path, body, headers | {"Cookie": self._cookie})
        answer = self._conn.getresponse()
        said = answer.read()
        if answer.status != http.client.SEE_OTHER:
            raise SystemExit(f"{path} answered {answer.status}: {said[:400]!r}")
        return str(answer.headers["Location"])

    def poll(self, path: str) -> None:
        """Request the changed part of a page, as htmx does."""
        known = {"If-None-Match": tag} if (tag := self._tags.get(path)) else {}
        self.get(path, **{"HX-Request": "true"}, **known)


def type_name(n: int) -> str:
    """Return the name of an event type."""
    return f"bench_type_{n:03d}"


def registry(client: AdminClient, types: int) -> None:
    """Put the event types into the registry, and transforms of some of them."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "note": {"type": "string"}}}
    known = {type_name(n): {"owner": f"team-{n % 9}", "schema": schema} for n in range(types)}
    source = "def transform(event):\n    return []\n"
    transforms = {
        f"bench_{n}": {
            "from": type_name(n),
            "to": [type_name(n + 1)],
            "source": source,
            "digest": digest_of_source(source),
        }
        for n in range(min(_TRANSFORMS, types - 1))
    }
    client.change("/v1/registry", {"event_types": known, "transforms": transforms}, "bench")


def send(target: Target, name: str, first: int, events: int) -> None:
    """Send events of one type over HTTP, in batches."""
    with closing(http.client.HTTPConnection(target.url.removeprefix("http://"), timeout=120)) as conn:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {target.api_key}"}
        for start in range(first, first + events, _BATCH):
            batch = [_event(name, n) for n in range(start, min(start + _BATCH, first + events))]
            while True:
                conn.request("POST", "/v1/events", json.dumps(batch), headers)
                answer = conn.getresponse()
                body = answer.read()
                if answer.status not in {429, 503}:
                    break
                time.sleep(_POLL_SECONDS)
            if answer.status != http.client.ACCEPTED:
                raise SystemExit(f"the gateway answered {answer.status}: {body[:400]!r}")


def _event(name: str, n: int) -> dict[str, Any]:
    metadata = {"id": f"{name}-{n}", "timestamp": "2026-11-21T08:00:00Z", "version": "1"}
    return {"metadata": metadata, "event_name": name, "payload": {"n": n, "note": "a note of the bench"}}


def landed(dsn: str, events: int) -> dict[str, str]:
    """Wait until so many events have landed; return the topics' ids."""
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cursor:
        while True:
            cursor.execute(
                "SELECT sum(events) FROM onramp.totals WHERE outcome = 'landed' AND topic LIKE %s",
                (wire.topic_of("bench_type_") + "%",),
            )
            (count,) = cursor.fetchone() or (0,)
            cursor.execute("SELECT DISTINCT topic, topic_id::text FROM onramp.ledger")
            topic_ids = dict(cursor.fetchall())
            conn.rollback()
            if int(count or 0) >= events:
                return topic_ids
            time.sleep(_POLL_SECONDS)


def park(target: Target, client: AdminClient, topic_ids: dict[str, str], events: int, types: int) -> None:
    """Put parked events on their topic, a group of each type, and wait until they are stored."""
    before = client.ask("/readyz")["stored"]

    def record(n: int) -> ParkedRecord:
        name = type_name(n % types)
        return parked_record(n, name, topic_ids[wire.topic_of(name)], "amount", 300)

    send_parked(target.bootstrap, map(record, range(events)))
    while client.ask("/readyz")["stored"] - before < events:
        time.sleep(_POLL_SECONDS)


def fill(target: Target, client: AdminClient, args: argparse.Namespace) -> None:
    """Create the state that the pages show."""
    registry(client, args.types)
    each = _PARTITIONS * 4  # so that every partition of a topic is likely to have one
    for n in range(args.types):
        send(target, type_name(n), 0, each)
    per_table = args.rows // _TABLES
    tables = range(min(_TABLES, args.types))
    senders = [
        threading.Thread(target=send, args=(target, type_name(n), each, per_table - each))
        for n in tables
        if per_table > each
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    more = max(per_table - each, 0) * len(tables)
    topic_ids = landed(target.dsn, args.types * each + more)
    park(target, client, topic_ids, args.events, args.types)


def pages(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """Request each page several times; return its time, the CPU time of the service, and its bytes."""
    tab = Tab(target)
    process = psutil.Process(target.processes["admin"])
    found = {}
    for name, path in page_paths(tab, _receipt(target)).items():
        if not re.search(args.only, name):
            continue
        for _ in range(3):
            sent, page = tab.get(path)
        spans, before = [], sum(process.cpu_times()[:2])
        began = time.perf_counter()
        for _ in range(args.times):
            start = time.perf_counter()
            tab.get(path)
            spans.append(time.perf_counter() - start)
        cpu = sum(process.cpu_times()[:2]) - before
        # The background readings run meanwhile: their share is measured by `idle`.
        found[name] = {
            "ms": spread(np.array(spans)),
            "cpu_ms": round(1000 * cpu / args.times, 1),
            "seconds": round(time.perf_counter() - began, 2),
            "later_bytes": len(sent),
            "first_bytes": len(sent) + sum(len(tab.get(each)[0]) for each in files_of(page.decode())),
        }
    return found


def page_paths(tab: Tab, receipt: str) -> dict[str, str]:
    """Return the pages of the sidebar and their subpages, by name; `receipt` is of a landed event."""
    _, home = tab.get("/ui/")
    entries = re.findall(r'href="(/ui/[^"]*)" data-go', home.decode())
    paths = {(entry.removeprefix("/ui/") or "overview").replace("-", " "): entry for entry in entries}
    for name, (page, pattern) in _LINKED.items():
        if link := re.search(f'href="({pattern})"', tab.get(page)[1].decode()):
            paths[name] = html.unescape(link[1])
    name = type_name(0)
    today = datetime.now(UTC).date().isoformat()
    return paths | {
        "one type": f"/ui/types/{name}",
        "new type": "/ui/types/new",
        "columns of a new type": tab.send("/ui/types/new", name=name, samples=""),
        "one topic": f"/ui/topics/{wire.topic_of(name)}",
        "statement of today": f"/ui/statement?day={today}",
        "search by id": f"/ui/search?q={name}-1",
        "search by id and type": f"/ui/search?q={name}-1&event_name={name}",
        "search by receipt": f"/ui/search?q={receipt}",
        "the last hour": "/ui/hour",
    }


def _receipt(target: Target) -> str:
    """Return the receipt of a landed event."""
    with closing(psycopg2.connect(target.dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(_RECEIPTS.format(type_name(0)), (1,))
        ((topic, partition, offset, _),) = cursor.fetchall()
    return f"{topic}/{partition}/{offset}"


def files_of(page: str) -> list[str]:
    """Return the files that a page loads, with the fonts of its stylesheet."""
    named = re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', page)
    return [*dict.fromkeys([*named, "/ui/static/jetbrains-mono.woff2?v=5.3.0"])]


def idle(target: Target, seconds: float, tabs: int) -> float:
    """Return the CPU time of the service as a percentage of a core, while so many tabs poll."""
    process = psutil.Process(target.processes["admin"])
    ended = threading.Event()
    paths = ("/ui/", "/ui/parked", "/ui/jobs", "/ui/waiting", "/ui/tracers")

    def poll(n: int) -> None:
        tab = Tab(target)
        path = paths[n % len(paths)]
        tab.get(path)
        while not ended.wait(_TAB_SECONDS):
            tab.poll(path)

    threads = [threading.Thread(target=poll, args=(n,)) for n in range(tabs)]
    for thread in threads:
        thread.start()
        time.sleep(_TAB_SECONDS / max(tabs, 1))
    before, began = sum(process.cpu_times()[:2]), time.perf_counter()
    time.sleep(seconds)
    cpu = sum(process.cpu_times()[:2]) - before
    spent = time.perf_counter() - began
    ended.set()
    for thread in threads:
        thread.join()
    return round(100 * cpu / spent, 1)


def statement(target: Target, times: int) -> dict[str, Any]:
    """Compute the statement of three databases, two of them with the counts of the first."""
    databases = {target.database: target.dsn, **dict(_copies(target, 2))}
    made = Statements(Brokers(target.bootstrap), target.dsn, databases)
    spans, cpu, found = [], [], Statement()
    for _ in range(times):
        began, before = time.perf_counter(), time.process_time()
        found = asyncio.run(made.of(None, None, lambda _: True))
        spans.append(time.perf_counter() - began)
        cpu.append(time.process_time() - before)
    return {
        "ms": spread(np.array(spans)),
        "cpu_ms": round(1000 * sum(cpu) / len(cpu), 1),
        "databases": len(found.times),
        "lines": len(found.lines),
        "partitions": sum(len(line.offsets) for line in found.lines),
        "unevaluated": sorted(found.unevaluated)[:5],
    }


def _copies(target: Target, number: int) -> Iterator[tuple[str, str]]:
    """Yield further databases with the counts of the first; they are removed with the stack."""
    for n in range(number):
        name = f"copy_{n}"
        with closing(psycopg2.connect(target.dsn)) as conn:
            conn.autocommit = True
            conn.cursor().execute(f"CREATE DATABASE {name}")
        dsn = re.sub(r"/[^/?]+(\?|$)", rf"/{name}\1", target.dsn)
        migrate(Database(name, dsn))
        with closing(psycopg2.connect(target.dsn)) as one, closing(psycopg2.connect(dsn)) as other, other:
            for table in _COUNTED:
                _copy(one, other, table)
        yield name, dsn


def _copy(one: Any, other: Any, table: str) -> None:
    with one.cursor() as source, other.cursor() as goal:
        source.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own words
        columns = ", ".join(f'"{each.name}"' for each in source.description)
        places = ", ".join(["%s"] * len(source.description))
        goal.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", source.fetchall())  # noqa: S608


def journeys(target: Target, client: AdminClient, times: int) -> dict[str, Any]:
    """Search events of the ten tables by receipt and by id; each answer names the location of the event."""
    with closing(psycopg2.connect(target.dsn)) as conn, conn.cursor() as cursor:
        rows: list[tuple[str, int, int, str]] = []
        for n in range(_TABLES):
            cursor.execute(_RECEIPTS.format(type_name(n)), (times // _TABLES + 1,))
            rows += cursor.fetchall()
    random.Random(1).shuffle(rows)  # noqa: S311 - the same each time
    asked: dict[str, Callable[[tuple[str, int, int, str]], str]] = {
        "by receipt": lambda row: f"{row[0]}/{row[1]}/{row[2]}",
        "by id": lambda row: row[3],
        "by id and type": lambda row: f"{row[3]}?event_name={row[3].rpartition('-')[0]}",
    }
    found = {}
    for name, of in asked.items():
        spans, wrong = [], 0
        for row in rows[:times]:
            value, _, query = of(row).partition("?")
            began = time.perf_counter()
            answer = client.ask(f"/v1/journey/{quote(value, safe='')}" + (f"?{query}" if query else ""))
            spans.append(time.perf_counter() - began)
            wrong += "landed" not in json.dumps(answer)
        found[name] = {"ms": spread(np.array(spans)), "not_landed": wrong}
    return found


def measure(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """Run all of it."""
    port = int(target.admin.rpartition(":")[2])
    while not answers_ok(port, "/readyz"):
        time.sleep(_POLL_SECONDS)
    client = AdminClient(target)
    began = time.perf_counter()
    fill(target, client, args)
    time.sleep(args.settle)
    found: dict[str, Any] = {"filled_s": round(time.perf_counter() - began, 1)}
    client.job("rehearse", event_name=type_name(0))  # for the page of a job
    if args.only:
        return found | {"pages": pages(target, args)}
    found["idle_percent"] = {str(tabs): idle(target, args.seconds, tabs) for tabs in (0, args.tabs)}
    found["pages"] = pages(target, args)
    found["journeys"] = journeys(target, client, args.times)
    found["statement"] = statement(target, args.statements)
    memory = psutil.Process(target.processes["admin"]).memory_info().rss
    return found | {"admin_rss_mib": round(memory / 2**20)}


def main() -> None:
    """Run and print JSON; a whole run is stored."""
    parser = argparse.ArgumentParser(
        "python -m loadtest.bench_ui",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--types", type=int, default=500, help="event types, each with six partitions")
    parser.add_argument("--events", type=int, default=WHOLE, help="parked events, a group of each type")
    parser.add_argument("--rows", type=int, default=WHOLE, help="rows in ten tables, for journeys")
    parser.add_argument("--tabs", type=int, default=10)
    parser.add_argument("--times", type=int, default=100, help="requests of each page")
    parser.add_argument("--statements", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0, help="of polls by tabs")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds before the first request")
    parser.add_argument("--lake", action="store_true", help="land every event type in the lake as well")
    parser.add_argument("--only", default="", help="regular expression: measure pages of these names alone")
    parser.add_argument("--out", type=Path, help="write the figures there instead of keeping them")
    args = parser.parse_args()
    before = os.getloadavg()[0]
    partitions = {"ONRAMP_KAFKA_PARTITIONS": str(_PARTITIONS)}
    with embedded(1, gateway_env=partitions, lake=args.lake) as target:
        result = measure(target, args)
    result |= {
        "types": args.types,
        "partitions": _PARTITIONS,
        "events": args.events,
        "rows": args.rows,
        "tabs": args.tabs,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average_before": round(before, 2),
        "load_average_after": round(os.getloadavg()[0], 2),
        "machine": report.machine(),
        "versions": report.versions(),
        "command": " ".join(["make bench-ui", *sys.argv[1:]]),
    }
    figures = json.dumps(result, indent=1) + "\n"
    print(figures)
    if args.out:
        args.out.write_text(figures, "utf-8")
    if args.only:
        return
    print(ui_page.page(result))
    if args.out is None and min(args.events, args.rows) >= WHOLE:
        (RESULTS / ui_page.RESULT).write_text(figures, "utf-8")
        ui_page.write()


if __name__ == "__main__":
    main()
