"""`make test-compose`: builds the images, runs docker-compose.yml on free ports, and kills its services.

Each step prints its result. The first failure ends the run with its exception, after the cleanup.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import yaml

from clients.python.onramp_client import Onramp
from clients.python.onramp_client.events import NewEvent
from stack.cache import cache_dir
from tests.compose.base_images import ensure_base_images
from tests.compose.engine import engine
from tests.compose.stack_run import ComposeStack, owned_by_images
from tests.unit.deploy import rules
from tests.unit.house.tree import ROOT

_PROJECT: Final = "onramp-test-compose"
_FIRST: Final = 2_000
_UNDER_CRASHES: Final = 4_000
_PATIENCE_SECONDS: Final = 600.0
_SOURCE: Final = "postgresql://onramp_shop:new-password@shop:5432/shop"
_TABLES: Final = """
CREATE SCHEMA app;
CREATE TABLE app.orders (id int PRIMARY KEY, state text);
INSERT INTO app.orders SELECT n, 'new' FROM generate_series(1, 100) n;
"""


_LAKE_REGISTRY: Final = """
event_types:
  order_placed:
    destinations: [{type: postgres}, {type: lake, table: orders}]
"""
#: The receipts of the rows, the rows, and the events.
_COUNT: Final = (
    "SELECT count(DISTINCT (_topic, _partition, _offset)) AS records, count(*) AS rows, "
    "count(DISTINCT _id) AS ids FROM "
)
_LAKE: Final = ("lake", "compaction")
_IN_LAKE: Final = 1_000
_PROMETHEUS: Final = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
_JOBS: Final = {each["job_name"] for each in _PROMETHEUS["scrape_configs"]}


def main() -> int:
    """Run all steps; return the exit code."""
    before = _container_seconds()
    folder = cache_dir("compose") / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    with engine(folder) as docker, tempfile.TemporaryDirectory() as scratch:
        ensure_base_images(docker)
        sources = Path(scratch) / "sources"
        sources.mkdir(mode=0o700)
        owned_by_images(sources)
        stack = ComposeStack(docker, _PROJECT, sources, Path(__file__).with_name("override.yml"))
        stack.down(volumes=True)  # of a run that was killed
        try:
            _events(stack)
            _capture(stack, sources)
            _lake(stack, Path(scratch))
            _watched(stack)
        except BaseException:
            stack.compose("ps", "--all", profiles=("*",))
            print(stack.compose("logs", "--tail", "40", profiles=("*",)), file=sys.stderr)
            raise
        finally:
            stack.down(volumes=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    inside, outside = _container_seconds() - before, used.ru_utime + used.ru_stime
    _say(f"passed; CPU seconds: {inside:.0f} in containers and builds, {outside:.0f} outside")
    return 0


def _container_seconds() -> float:
    """Return the CPU seconds of all containers and builds since the machine started; 0 if not known."""
    v1, v2 = (Path("/sys/fs/cgroup") / each for each in ("cpuacct/docker/cpuacct.usage", "docker/cpu.stat"))
    if v1.exists():
        return int(v1.read_text()) / 1e9
    return int(v2.read_text().split()[1]) / 1e6 if v2.exists() else 0.0


def _events(stack: ComposeStack) -> None:
    """Send, crash each part during the load, and stop and start the stack: each event is one row."""
    stack.up()
    states = " ".join(stack.compose("ps", "--format", "{{.Service}} {{.Health}}").splitlines())
    _say(f"up: {states}")
    stack.password = stack.secret("database/password")
    key = stack.secret("sender/compose.key")
    with Onramp(stack.gateway, key=key) as onramp:
        onramp.send_many([_event(n) for n in range(_FIRST)])
    _await_rows(stack, _FIRST)
    _say(f"{_FIRST} sent, {_FIRST} rows")
    crashes = ["gateway", "writer", "kafka", "postgres"]
    share = _UNDER_CRASHES // len(crashes)
    with Onramp(stack.gateway, key=key, give_up_seconds=_PATIENCE_SECONDS) as onramp:
        for n, service in enumerate(crashes):
            first = _FIRST + n * share
            onramp.send_many([_event(each) for each in range(first, first + share)])
            stack.crash(service)
        assert onramp.flush(_PATIENCE_SECONDS), onramp.tally
    total = _FIRST + _UNDER_CRASHES
    _await_rows(stack, total)
    _say(f"SIGKILL of {', '.join(crashes)} during the load: {total} sent, {total} rows, all distinct")
    stack.down()
    stack.up()
    _await_rows(stack, total)
    _say(f"down and up: {total} rows")


def _event(n: int) -> NewEvent:
    return {"event_name": "compose_test", "payload": {"n": n}}


def _await_rows(stack: ComposeStack, expected: int) -> None:
    query = "SELECT count(*), count(DISTINCT _id) FROM events.compose_test"
    _await(lambda: stack.rows(query) == [(expected, expected)], f"{expected} rows", lambda: stack.rows(query))


def _capture(stack: ComposeStack, sources: Path) -> None:
    """A row that changes in a source reaches its public table."""
    stack.up(profiles=("cdc",))
    psql = ["exec", "--no-TTY", "shop", "psql", "--set=ON_ERROR_STOP=1", "--username=owner", "shop"]
    stack.compose(*psql, profiles=("cdc",), text=_TABLES)
    prepare = stack.onramp("sources", "sql", "shop", "--schema", "app", env={"ONRAMP_SOURCE_SHOP": _SOURCE})
    stack.compose(*psql, profiles=("cdc",), text=prepare)
    (sources / "ONRAMP_SOURCE_SHOP_PASSWORD").write_text("new-password")
    (sources / "ONRAMP_SOURCE_SHOP").write_text(_SOURCE)
    owned_by_images(sources)
    stack.onramp("sources", "add", "shop", "--schema", "app", env={"ONRAMP_SOURCE_SHOP": _SOURCE})
    query = "SELECT state, count(*) FROM shop.orders GROUP BY state ORDER BY state"
    _await(lambda: stack.rows(query) == [("new", 100)], "the snapshot", lambda: stack.rows(query))
    change = "UPDATE app.orders SET state = 'paid' WHERE id <= 10; DELETE FROM app.orders WHERE id > 90;"
    stack.compose(*psql, profiles=("cdc",), text=change)
    expected = [("new", 80), ("paid", 10)]
    _await(lambda: stack.rows(query) == expected, "the changes", lambda: stack.rows(query))
    _say("profile cdc: snapshot, updates and deletes of a source are in its public table")


def _lake(stack: ComposeStack, scratch: Path) -> None:
    """Each event is in the lake; those with a destination of their own during a crash of its service."""
    file = scratch / "onramp.yaml"
    file.write_text(_LAKE_REGISTRY, "utf-8")
    file.chmod(0o644)
    stack.compose("run", "--rm", "--no-TTY", "--volume", f"{file}:/onramp.yaml:ro", "apply", "/onramp.yaml")
    stack.up(*_LAKE, profiles=("lake",))
    with Onramp(stack.gateway, key=stack.secret("sender/compose.key")) as onramp:
        onramp.send_many([{"event_name": "order_placed", "payload": {"n": n}} for n in range(_IN_LAKE // 2)])
        stack.crash("lake")
        onramp.send_many([{"event_name": "order_placed", "payload": {"n": n}} for n in range(_IN_LAKE // 2)])
        assert onramp.flush(_PATIENCE_SECONDS), onramp.tally

    def lake(*arguments: str) -> str:
        return stack.onramp("lake", *arguments, service="compaction")

    def counts(table: str) -> list[int]:
        return list(json.loads(lake("query", _COUNT + table, "--json")).values())

    total = _FIRST + _UNDER_CRASHES
    topics = dict.fromkeys(("events.compose_test", "events.order_placed"), 0)
    sent_at = time.time()

    def lags() -> dict[str, int]:
        with suppress(OSError):  # the service starts again
            status = stack.page("LAKE", "/status")
            if status["updated_at"] > sent_at:
                return {name: each["lag_events"] for name, each in status["topics"].items() if name in topics}
        return {}

    _await(lambda: lags() == topics, "no event waits for the lake", lags)
    for table, expected in (("orders", _IN_LAKE), ("compose_test", total)):
        # A client that sends an event twice makes a second record, and so a second row of the lake.
        records, rows, ids = counts(table)
        assert (rows, ids) == (records, expected), (table, records, rows, ids)
    _say(f"profile lake: {_IN_LAKE} rows in a table of their own, SIGKILL of lake; {total} earlier events")


def _watched(stack: ComposeStack) -> None:
    """Prometheus scrapes each service that runs, and evaluates each rule."""
    stack.up("tracer", "prometheus", profiles=("watch",))
    _await_targets(stack, _JOBS - {"onramp-transform"})
    stack.up("transform", profiles=("transforms",))
    _await_targets(stack, _JOBS)
    names = {*rules.ALERTS, *rules.RECORDED}

    def states() -> dict[str, str]:
        groups = stack.page("PROMETHEUS", "/api/v1/rules")["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    _await(lambda: states() == dict.fromkeys(names, "ok"), "every rule is evaluated", states)
    assert stack.page("TRACER", "/status")
    _say(
        f"profiles watch and transforms: Prometheus scrapes {len(_JOBS)} services, {len(names)} rules are ok"
    )


def _await_targets(stack: ComposeStack, jobs: set[str]) -> None:
    def targets() -> list[tuple[str, str]]:
        active = stack.page("PROMETHEUS", "/api/v1/targets?state=active")["data"]["activeTargets"]
        return sorted((each["labels"]["job"], each["health"]) for each in active)

    _await(lambda: targets() == sorted((job, "up") for job in jobs), "every target is up", targets)


def _await(condition: Callable[[], bool], what: str, state: Callable[[], object]) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not after {_PATIENCE_SECONDS:g} s, but {state()}")
        time.sleep(0.5)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
