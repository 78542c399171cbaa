"""One run of load, top to bottom: prepare, generate, settle, verify, measure, report.

``python -m loadtest.run seeds`` starts a stack of its own and runs the published seed shapes;
``--url`` loads what is there already.  See ``--help`` and loadtest/README.md.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka.admin import NewTopic

from loadtest import landed_rows, measure, report, stalls, verify
from loadtest.bodies import FIRST_NUMBER, Names
from loadtest.client_claims import Claims
from loadtest.generator import ORDER, STOP, Order
from loadtest.history import Recorder
from loadtest.shapes import KAFKA, SYSLOG, USERS, Shape, named
from loadtest.target import ROOT, Target, admin, elsewhere, embedded, promise
from loadtest.watch import Watch
from stack.errors import StackError
from stack.interrupts import Stopped

WARM_UP: Final = named("warm-up", 8)
_MAX_SHARED: Final = 5_000_000
_PATIENCE_SECONDS: Final = 60.0
#: A generator that is late has so long to send what was due.
_LATE_SECONDS: Final = 30.0
_ENDED_SECONDS: Final = 120.0


def run(target: Target, shape: Shape, args: argparse.Namespace) -> dict[str, Any]:
    """Load `target` with `shape` and return the result; raises when the generator fails."""
    names = Names(secrets.token_hex(3), target.database)
    topic = landed_rows.topic_of(shape.via, names)
    load_average = os.getloadavg()
    partitions = _prepare(target, shape, names, topic, args.partitions)
    with tempfile.TemporaryDirectory(prefix="onramp-load-") as name:
        folder = Path(name)
        history = folder / "history.jsonl"
        with Watch(target, topic, partitions) as watch, Recorder(history, FIRST_NUMBER) as recorder:
            order = Order(
                shape=shape,
                names=names,
                history=recorder.address,
                api_key=target.api_key,
                ca_file=target.ca_file,
                bootstrap=target.bootstrap,
                topic=topic,
                syslog=target.syslog,
            )
            order.write(folder / "order.json")
            broken = generate(target, shape, folder, watch, recorder, web=args.web)
            missing = watch.wait_for_lag_zero(_PATIENCE_SECONDS) if target.verifiable else 0
        claims = Claims.read(history)
    if not len(claims.requests.first):
        sys.exit("The generator has sent nothing.")
    rows, verdict = _compare_rows(target, shape, names, claims, watch) if target.verifiable else (None, None)
    if verdict is not None:
        verdict.unsettled = missing
    return {
        **report.about(shape, target, args, load_average),
        "partitions": partitions,
        **(promise(target.bootstrap) if target.verifiable else {}),
        "run": names.run,
        **measure.rates(shape, claims, rows),
        **measure.latencies(shape, claims, rows),
        "looked_every_ms": round(1000 * watch.poll_seconds / max(watch.polls, 1), 1),
        "stand_still": stalls.longest_stall(rows, watch.max_poll_gap),
        "errors": claims.errors,
        "processes": measure.costs(watch, int(claims.requests.count.sum())),
        "cores_of_others": measure.others(watch),
        "verified": verdict.as_dict() if verdict else None,
        **({"broke": broken, "steps": measure.steps(shape, claims, rows)} if shape.breaks else {}),
        "over_time": measure.over_time(claims, rows, watch),
    }


def _prepare(target: Target, shape: Shape, names: Names, topic: str, partitions: int) -> int:
    """Create the topic and the table that packets name; return the number of partitions."""
    if shape.via == SYSLOG and target.syslog is None:
        sys.exit("This shape needs --syslog HOST:PORT.")
    if not target.verifiable:
        if shape.via == KAFKA:
            sys.exit("Packets go straight to Kafka and into a table of their own: give --kafka and --dsn.")
        return 0
    kafka = admin(target.bootstrap)
    if topic not in kafka.list_topics(timeout=10).topics:
        replicas = target.brokers or -1
        # Whatever is slow, Kafka must not delete by size what has not landed.
        config = {"retention.bytes": "-1"}
        if target.brokers > 1:
            config["min.insync.replicas"] = str(target.brokers - 1)
        kafka.create_topics([NewTopic(topic, partitions, replicas, config=config)])[topic].result(20)
    if shape.via == KAFKA:
        conn = landed_rows.connect(target.dsn)
        landed_rows.make_table(conn, names)
        conn.close()
    while (there := kafka.list_topics(timeout=10).topics.get(topic)) is None or not there.partitions:
        time.sleep(0.05)  # a broker learns of a new topic a moment after it was made
    return len(there.partitions)


def generate(
    target: Target, shape: Shape, folder: Path, watch: Watch, recorder: Recorder, *, web: bool
) -> bool:
    """Run locust to its end, or until the system is overloaded; return whether it was."""
    face = ["--headless", "--only-summary"]
    if web:
        face = ["--web-host", "127.0.0.1", "--autostart", "--autoquit", "1"]
    command = [sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py", USERS[shape.via], *face]
    command += ["--host", target.url, "--stop-timeout", "40"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), ORDER: str(folder / "order.json")}
    with (folder / "locust.log").open("wb") as log:
        locust = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
        watch.generator = locust.pid
        broken = _follow(locust, shape, watch, recorder, folder / STOP)
    if locust.returncode not in (0, 1):  # 1: some requests failed, which the report tells
        sys.exit(f"locust ended with {locust.returncode}:\n{(folder / 'locust.log').read_text()[-4000:]}")
    return broken


def _follow(
    locust: subprocess.Popen[bytes], shape: Shape, watch: Watch, recorder: Recorder, stop: Path
) -> bool:
    """Wait for the generator's end; request it early when the system falls behind."""
    began = time.monotonic()
    broken = False
    try:
        while locust.poll() is None:
            elapsed = time.monotonic() - began
            waiting = max(recorder.late, watch.lag / shape.rate_at(elapsed))
            if 0 < shape.breaks < waiting and not broken:
                broken = True
                stop.touch()
            if elapsed > shape.seconds + _LATE_SECONDS:
                stop.touch()  # what could not be sent by now stays unsent, and the report tells
            if elapsed > shape.seconds + _ENDED_SECONDS:
                sys.exit("locust did not end.")
            time.sleep(0.1)
    finally:
        if locust.poll() is None:
            locust.kill()
            locust.wait()
    return broken


def _compare_rows(
    target: Target, shape: Shape, names: Names, claims: Claims, watch: Watch
) -> tuple[measure.Rows, verify.Verdict]:
    """Read the rows once, to verify them and for latencies, then run the audit."""
    visible = measure.Visibility(watch)
    comparison = verify.Comparison(claims)
    due, accepted, seen = [], [], []

    def take(piece: landed_rows.Rows) -> None:
        numbers = piece["number"].astype(np.int64)
        comparison.take(numbers)
        if shape.via != KAFKA:
            ours = numbers[numbers != landed_rows.STRAY]
            requests = claims.requests_of(ours)
            due.append(claims.requests.intended[requests])
            accepted.append(claims.requests.ended[requests])
            seen.append(visible.of(piece["partition"], piece["offset"])[numbers != landed_rows.STRAY])

    conn = landed_rows.connect(target.dsn)
    try:
        landed_rows.read_rows(conn, shape.via, names, take)
        verdict = comparison.verdict()
        verify.check_counts(verdict, landed_rows.outcomes(conn, shape.via, names), exact=shape.via != SYSLOG)
    finally:
        conn.close()
    verdict.audit = verify.audit(target, landed_rows.topic_of(shape.via, names))
    if shape.via == KAFKA:
        sent = claims.requests  # packets' rows keep no receipts, but their sender got them
        due, accepted = [sent.intended[sent.ok]], [sent.ended[sent.ok]]
        seen = [visible.of(sent.partition[sent.ok], sent.offset[sent.ok])]
    return measure.Rows(
        *(np.concatenate([np.zeros(0), *column]) for column in (due, accepted, seen))
    ), verdict


def main() -> None:
    """Run the requested shapes; exit with 1 if the verification of a run fails."""
    args = report.arguments(__doc__ or "")
    shapes = report.wanted(args)
    results: list[dict[str, Any]] = []
    try:
        # A stack for neighbours of one kind: starting one takes half a minute.
        for (brokers, _), group in groupby(shapes, key=lambda shape: _stack_of(shape, args)):
            results += _group(brokers, list(group), args)
    except StackError as error:
        sys.exit(f"{error}\n{error.log_tail}")
    except Stopped:
        sys.exit("Stopped.")
    if not all(result["verified"]["sound"] for result in results if result["verified"]):
        sys.exit("A run is NOT SOUND: see above.")


def _stack_of(shape: Shape, args: argparse.Namespace) -> tuple[int, str]:
    """Return the key of shapes that may share a stack; a cold or very large one gets its own."""
    packets = sum(step.seconds * step.rate for step in shape.steps)
    return args.brokers or shape.brokers, shape.name if shape.cold or packets > _MAX_SHARED else ""


def _group(brokers: int, group: list[Shape], args: argparse.Namespace) -> list[dict[str, Any]]:
    if args.url:
        with elsewhere(args) as target:
            return [run_and_report(target, shape, args, keep=True) for shape in group]
    with embedded(brokers, gateways=args.gateways, slots=args.slots, keep=args.keep) as target:
        if not any(shape.cold for shape in group):
            # Spark's first batches cost seconds once; no shape is to pay for the others.
            run_and_report(target, WARM_UP, args, keep=False)
        return [run_and_report(target, shape, args, keep=True) for shape in group]


def run_and_report(target: Target, shape: Shape, args: argparse.Namespace, *, keep: bool) -> dict[str, Any]:
    """Run; write the report if it is to be stored, and print it."""
    print(f"{shape.name}: {shape.seconds:g} s …", flush=True)
    result = run(target, shape, args)
    if keep:
        report.keep(result, args.out)
        print("\n".join(report.lines_of(result)), flush=True)
        report.pages(args.out)
    return result


if __name__ == "__main__":
    main()
