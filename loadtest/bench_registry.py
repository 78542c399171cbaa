"""`make bench-registry`: delay until a change of the registry is in force, and the cost of a large registry.

`in-force`: 100 changes, one after the other; from when one is begun until the gateway answers by it and the
writer shows it.  `read`: from a start until 10,000 change sets were read.  `types`: two
gateways at once, of which one has 5,000 event types, loaded in turn.  `changing`: single events at that
gateway in an open loop, the longest of them while nothing changes and while 100 changes pass.  `routes`: the
writer with 500 routed types and with none, the same backlog each time, in turn.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import numpy as np
import orjson
import psycopg2
from confluent_kafka import Producer

from loadtest import registry_page
from loadtest.background import repeatedly
from loadtest.bench_gateway import Scenario, load
from loadtest.bench_writer import Spent, parts, produce, run_writer
from loadtest.gateways import KEY, Variant
from loadtest.measure import spread
from loadtest.pages import RESULTS
from loadtest.processes import cost
from loadtest.registries import Watched, gateway_of, gateways_of, many_types, routed_types
from loadtest.report import machine, versions
from loadtest.writer_cases import CASES
from shared.registry.key_secrets import new_key
from shared.registry.log_registry import LogRegistry
from stack import services
from stack.kafka import Kafka
from stack.postgres import Postgres
from stack.registry import OwnRegistry

BATCHES: Final = Scenario("batches of 500", "array", 500, 8)
_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.005
#: Both services poll twice a second.
_WATCH_SECONDS: Final = 0.5
_STRIDE_SECONDS: Final = 0.137
_WARM_SECONDS: Final = 2.0
_RATE: Final = 200
#: Fields of a line of the open loop: due, answered, name, topic, partition, offset.
_WITH_RECEIPT: Final = 6
_UNAUTHENTICATED: Final = 401
#: Seconds between two changes, so that each needs a poll of its own.
_CHANGE_SECONDS: Final = 0.6


class Parts(NamedTuple):
    """The processes of every case."""

    kafka: Kafka
    postgres: Postgres
    folder: Path


def in_force(on: Parts, args: argparse.Namespace) -> dict[str, Any]:
    """Create keys, one change each; wait until a gateway accepts the key and the writer shows the digest."""
    registry = OwnRegistry(on.kafka.bootstrap, {"keys": {"first": _holder("first")[1]}})
    gateway = gateway_of(on.kafka, on.folder, registry, "in-force")
    writer = services.writer(
        bootstrap=on.kafka.bootstrap, dsn=on.postgres.dsn, log=on.folder / "writer.log", env=registry.env
    )
    seconds: dict[str, list[float]] = {"gateway": [], "writer": []}
    with ExitStack() as stack:
        for service in (gateway.service, writer):
            service.start()
            stack.callback(service.stop)
        for service in (gateway.service, writer):
            service.wait_ready()
        watched = stack.enter_context(closing(Watched(registry)))
        client = stack.enter_context(httpx2.Client(timeout=_PATIENCE_SECONDS))
        for n in range(args.changes):
            time.sleep(n * _STRIDE_SECONDS % _WATCH_SECONDS)  # at different times between two polls
            secret, holder = _holder(f"key-{n}")
            changed = watched.change({f"key-{n}": holder})
            waits = {
                "gateway": lambda key=secret: _opens(client, gateway.port, key),
                "writer": lambda digest=changed.digest: digest in client.get(f"{writer.url}/metrics").text,
            }
            _until_all(waits, changed.begun, seconds)
    return {"changes": args.changes, **{f"{name}_ms": _spread(each) for name, each in seconds.items()}}


def read(on: Parts, args: argparse.Namespace) -> dict[str, Any]:
    """Read a topic of change sets five times, each time with a new registry."""
    registry = OwnRegistry(on.kafka.bootstrap, {"unknown_names": "accept"})
    producer = Producer({"bootstrap.servers": on.kafka.bootstrap, "linger.ms": 20})
    change = {"format": 1, "actor": "bench", "reason": "", "time": "2026-01-01T00:00:00Z"}
    for n in range(1, args.records):
        put = {"event_types": {f"type_{n % 1000}": {"owner": f"owner {n}", "max_bytes": n}}}
        producer.produce(registry.topic, orjson.dumps(change | {"after": n - 1, "put": put}), partition=0)
        producer.poll(0)
    producer.flush()
    took = []
    for _ in range(args.rounds):
        following = LogRegistry(registry.open())
        began = time.perf_counter()
        following.refresh()
        took.append(time.perf_counter() - began)
        if following.chain is None or following.chain.last != args.records - 1:
            sys.exit(f"not all of {args.records} change sets count: {following.trouble}")
        following.close()
    return {"change_sets": args.records, "read_s": _range(took)}


def types(on: Parts, args: argparse.Namespace) -> dict[str, Any]:
    """Load a gateway with an empty registry and one with thousands of types in turn; CPU µs an event."""
    registries = {"empty": OwnRegistry(on.kafka.bootstrap), "types": _large(on, args)}
    spent: dict[str, list[float]] = {name: [] for name in registries}
    with gateways_of(on.kafka, on.folder, registries) as gateways:
        for gateway in gateways.values():
            load(gateway, BATCHES, _WARM_SECONDS)
        for number in range(args.rounds):
            for name, gateway in sorted(gateways.items(), reverse=bool(number % 2)):
                before = cost(gateway.pid)
                events = load(gateway, BATCHES, args.seconds)["events"]
                after = cost(gateway.pid)
                spent[name].append(1e6 * (sum(after.cpu.values()) - sum(before.cpu.values())) / events)
    ratios = [full / empty for full, empty in zip(spent["types"], spent["empty"], strict=True)]
    return {
        "types": args.types,
        "empty_us_per_event": _range(spent["empty"]),
        "types_us_per_event": _range(spent["types"]),
        "types_to_empty": _range(ratios),
        "types_to_empty_median": round(statistics.median(ratios), 3),
    }


def changing(on: Parts, args: argparse.Namespace) -> dict[str, Any]:
    """Send single events at a fixed rate to a gateway with thousands of types, without and during changes."""
    registry = _large(on, args)
    found: dict[str, Any] = {"types": args.types, "events_per_s": _RATE, "changes": args.changes}
    with (
        gateways_of(on.kafka, on.folder, {"types": registry}) as gateways,
        closing(Watched(registry)) as watched,
    ):
        load(gateways["types"], BATCHES, _WARM_SECONDS)
        seconds = args.changes * _CHANGE_SECONDS
        found["still_ms"] = _spread(_open_loop(on, gateways["types"], seconds))
        names = iter(range(args.changes))

        def change() -> None:
            if (n := next(names, None)) is not None:
                watched.change({"bench": {"owner": f"owner {n}"}}, "event_types")

        with repeatedly(_CHANGE_SECONDS, change):
            found["changing_ms"] = _spread(_open_loop(on, gateways["types"], seconds))
    return found


def routes(args: argparse.Namespace) -> dict[str, Any]:
    """Settle the same backlog by writers with 500 routed types and with none; return warm rows per second."""
    case, rates = CASES["landing-250b"], dict[str, list[float]]()
    for _ in range(args.rounds):
        for name, document in (("none", {}), ("routed", routed_types(args.routed))):
            with tempfile.TemporaryDirectory() as folder, parts(Path(folder)) as (kafka, postgres):
                produce(kafka.bootstrap, case, args.events, 6)
                env = OwnRegistry(kafka.bootstrap, document).env | {"ONRAMP_WRITER_MASTER": "local[2]"}
                conn = psycopg2.connect(postgres.dsn)
                conn.autocommit = True
                writer = services.writer(
                    bootstrap=kafka.bootstrap, dsn=postgres.dsn, log=Path(folder) / "writer.log", env=env
                )
                try:
                    line, _ = run_writer(writer, conn, args.events, Spent(writer, postgres, kafka))
                finally:
                    writer.stop()
                    conn.close()
                end, events = line[-1]
                first, begun = line[1]
                rates.setdefault(name, []).append((events - begun) / (end - first))
    ratios = [none / routed for none, routed in zip(rates["none"], rates["routed"], strict=True)]
    return {
        "routed_types": args.routed,
        "events": args.events,
        **{f"{name}_rows_per_s": _range(each, 0) for name, each in rates.items()},
        "none_to_routed": _range(ratios),
        "none_to_routed_median": round(statistics.median(ratios), 3),
    }


Case = Callable[[Parts, argparse.Namespace], dict[str, Any]]
CASES_BY_NAME: Final[dict[str, Case]] = {
    "in-force": in_force,
    "read": read,
    "types": types,
    "changing": changing,
    "routes": lambda _, args: routes(args),
}


def _large(on: Parts, args: argparse.Namespace) -> OwnRegistry:
    return OwnRegistry(on.kafka.bootstrap, many_types(args.types))


def _holder(name: str) -> tuple[str, dict[str, Any]]:
    secret, sha256 = new_key(name)
    return secret, {"hashes": [{"sha256": sha256}]}


def _open_loop(on: Parts, gateway: Variant, seconds: float) -> list[float]:
    """Return the seconds from the due time of each single event to its answer."""
    order, out = on.folder / "order.json", on.folder / "out.json"
    said = {
        "port": gateway.port,
        "api_key": KEY,
        "rate": _RATE,
        "seconds": seconds,
        "names": 1,
        "fresh_every_s": 10 * seconds,
        "out": str(out),
    }
    order.write_text(json.dumps(said), "utf-8")
    subprocess.run([sys.executable, "-m", "loadtest.open_loop", str(order)], check=True)
    lines = json.loads(out.read_text("utf-8"))
    if refused := [line for line in lines if len(line) < _WITH_RECEIPT]:
        sys.exit(f"{len(refused)} events were not accepted")
    return [line[1] - line[0] for line in lines[_RATE:]]  # a second for the connections


def _opens(client: httpx2.Client, port: int, key: str) -> bool:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    answer = client.post(f"http://127.0.0.1:{port}/v1/events", content=b"{}", headers=headers)
    return answer.status_code != _UNAUTHENTICATED


def _until_all(waits: dict[str, Callable[[], bool]], began: float, seconds: dict[str, list[float]]) -> None:
    """Return the seconds from `began` until each condition was true; exit if one never is."""
    while waits:
        for name in [name for name, holds in waits.items() if holds()]:
            seconds[name].append(time.perf_counter() - began)
            del waits[name]
        if time.perf_counter() - began > _PATIENCE_SECONDS:
            sys.exit(f"the change is not in force in {', '.join(waits)}")
        time.sleep(_POLL_SECONDS)


def _spread(seconds: list[float]) -> dict[str, float]:
    return spread(np.array(seconds)) or {}


def _range(values: list[float], digits: int = 3) -> list[float]:
    """Return the lowest and the highest."""
    return [round(each, digits) for each in (min(values), max(values))]


def main() -> None:
    """Run the cases and print JSON; `--keep` makes them the committed results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="*", choices=[*CASES_BY_NAME, []], help="all unless given")
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--records", type=int, default=10_000, help="read: how many change sets")
    parser.add_argument("--types", type=int, default=5_000)
    parser.add_argument("--routed", type=int, default=500, help="routes: how many types")
    parser.add_argument("--events", type=int, default=400_000, help="routes: of the backlog")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="types: of each load")
    parser.add_argument("--keep", action="store_true", help="keep the results, and make the page of them")
    args = parser.parse_args()
    for name in args.case or CASES_BY_NAME:
        before = os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="onramp-bench-") as folder, parts(Path(folder)) as started:
            result = {"case": name} | CASES_BY_NAME[name](Parts(*started, Path(folder)), args)
        result |= {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load_average_before": round(before, 2),
            "load_average_after": round(os.getloadavg()[0], 2),
            "machine": machine(),
            "versions": versions(),
            "command": " ".join(["python -m loadtest.bench_registry", *sys.argv[1:]]),
        }
        print(json.dumps(result, indent=1))
        if args.keep:
            text = json.dumps(result, indent=1) + "\n"
            (RESULTS / f"registry-{name}.json").write_text(text, "utf-8")
            registry_page.write()


if __name__ == "__main__":
    main()
