"""`make test-compose`: builds the images, runs docker-compose.yml on free ports, and kills its services.

Each step prints its result. The first failure ends the run with its exception, after the cleanup.
"""

import json
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from clients.python.onramp_client import Onramp
from clients.python.onramp_client.events import NewEvent
from stack.cache import cache_dir
from tests.compose.base_images import ensure_base_images
from tests.compose.engine import engine
from tests.compose.page import follow
from tests.compose.stack_run import PATIENCE_SECONDS, ComposeStack, owned_by_images, wait_until
from tests.unit.conventions.tree import ROOT
from tests.unit.deploy import rules

_PROJECT: Final = "onramp-test-compose"
_FIRST: Final = 2_000
_UNDER_CRASHES: Final = 4_000
_SOURCE: Final = "postgresql://onramp_shop:new-password@shop:5432/shop"
_TABLES: Final = """
CREATE SCHEMA app;
CREATE TABLE app.orders (id int PRIMARY KEY, state text);
INSERT INTO app.orders SELECT n, 'new' FROM generate_series(1, 100) n;
"""


_LAKE_REGISTRY: Final = """
event_types:
  invoice_sent:
    destinations: [{type: postgres}, {type: lake, table: invoices}]
"""
#: The receipts of the rows, the rows, and the events.
_COUNT: Final = (
    "SELECT count(DISTINCT (_topic, _partition, _offset)) AS records, count(*) AS rows, "
    "count(DISTINCT _id) AS ids FROM "
)
_LAKE: Final = ("lake", "compaction")
_IN_LAKE: Final = 1_000
_TRACERS: Final = "onramp_probe"
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
        docker.env["ONRAMP_TRACER_LAKE_TABLE"] = _TRACERS
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
    follow(stack, "In containers")
    key = stack.secret("sender/compose.key")
    with Onramp(stack.gateway, key=key) as onramp:
        onramp.send_many([_event(n) for n in range(_FIRST)])
    _await_rows(stack, _FIRST)
    _say(f"{_FIRST} sent, {_FIRST} rows")
    crashes = ["gateway", "writer", "kafka", "postgres"]
    share = _UNDER_CRASHES // len(crashes)
    with Onramp(stack.gateway, key=key, give_up_seconds=PATIENCE_SECONDS) as onramp:
        for n, service in enumerate(crashes):
            first = _FIRST + n * share
            onramp.send_many([_event(each) for each in range(first, first + share)])
            stack.crash(service)
        assert onramp.flush(PATIENCE_SECONDS), onramp.tally
    total = _FIRST + _UNDER_CRASHES
    _await_rows(stack, total)
    _say(f"SIGKILL of {', '.join(crashes)} during the load: {total} sent, {total} rows, all distinct")
    stack.down()
    stack.up()
    _await_rows(stack, total)
    _say(f"down and up: {total} rows")
    report = _audit(stack)
    assert report["balanced"], report
    assert report["lake"] == [], report["lake"]  # without the profile


def _event(n: int) -> NewEvent:
    return {"event_name": "compose_test", "payload": {"n": n}}


def _await_rows(stack: ComposeStack, expected: int) -> None:
    def rows() -> list[tuple[Any, ...]]:
        return stack.rows("SELECT count(*), count(DISTINCT _id) FROM events.compose_test")

    wait_until(lambda: rows() == [(expected, expected)], f"{expected} rows", rows)


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
    wait_until(lambda: stack.rows(query) == [("new", 100)], "the snapshot", lambda: stack.rows(query))
    change = "UPDATE app.orders SET state = 'paid' WHERE id <= 10; DELETE FROM app.orders WHERE id > 90;"
    stack.compose(*psql, profiles=("cdc",), text=change)
    expected = [("new", 80), ("paid", 10)]
    wait_until(lambda: stack.rows(query) == expected, "the changes", lambda: stack.rows(query))
    _say("profile cdc: snapshot, updates and deletes of a source are in its public table")


def _lake(stack: ComposeStack, scratch: Path) -> None:
    """Each event is in the lake; those with a destination of their own during a crash of its service."""
    file = scratch / "onramp.yaml"
    file.write_text(_LAKE_REGISTRY, "utf-8")
    file.chmod(0o644)
    stack.compose("run", "--rm", "--no-TTY", "--volume", f"{file}:/onramp.yaml:ro", "apply", "/onramp.yaml")
    stack.up(*_LAKE, profiles=("lake",))
    with Onramp(stack.gateway, key=stack.secret("sender/compose.key")) as onramp:
        onramp.send_many([{"event_name": "invoice_sent", "payload": {"n": n}} for n in range(_IN_LAKE // 2)])
        stack.crash("lake")
        onramp.send_many([{"event_name": "invoice_sent", "payload": {"n": n}} for n in range(_IN_LAKE // 2)])
        assert onramp.flush(PATIENCE_SECONDS), onramp.tally

    def lake(*arguments: str) -> str:
        return stack.onramp("lake", *arguments, service="compaction")

    def counts(table: str) -> list[int]:
        return list(json.loads(lake("query", _COUNT + table, "--json")).values())

    total = _FIRST + _UNDER_CRASHES
    topics = dict.fromkeys(("events.compose_test", "events.invoice_sent"), 0)
    sent_at = time.time()

    def lags() -> dict[str, int]:
        with suppress(OSError):  # the service starts again
            status = stack.page("LAKE", "/status")
            if status["updated_at"] > sent_at:
                return {name: each["lag_events"] for name, each in status["topics"].items() if name in topics}
        return {}

    wait_until(lambda: lags() == topics, "no event waits for the lake", lags)
    in_lake = {}
    for table, expected in (("invoices", _IN_LAKE), ("compose_test", total)):
        # A client that sends an event twice makes a second record, and so a second row of the lake.
        records, rows, ids = counts(table)
        assert (rows, ids) == (records, expected), (table, records, rows, ids)
        in_lake[table] = rows
    _say(f"profile lake: {_IN_LAKE} rows in a table of their own, SIGKILL of lake; {total} earlier events")
    follow(stack, "Query the lake")
    report = _audit(stack)
    assert report["balanced"], report
    audited = Counter[str]()
    for line in report["lake"]:
        audited[line["table"]] += line["rows"]
    assert audited == {**in_lake, "order_placed": 1}, report["lake"]
    _say(f"audit of the admin service: reconciled, with {sum(audited.values())} rows of the lake")


def _audit(stack: ComposeStack) -> dict[str, Any]:
    """Run an audit by the admin service's API, and return its report."""
    key = stack.secret("sender/operator.key")
    number = stack.page("ADMIN", "/v1/audits", key=key, body={"reason": "make test-compose"})["id"]

    def state() -> dict[str, Any]:
        audit: dict[str, Any] = stack.page("ADMIN", f"/v1/audits/{number}", key=key)
        return audit

    wait_until(lambda: state()["state"] != "running", "the audit has ended", state)
    ended = state()
    assert ended["state"] == "done", ended
    report: dict[str, Any] = ended["report"]
    return report


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

    wait_until(lambda: states() == dict.fromkeys(names, "ok"), "every rule is evaluated", states)

    def in_lake() -> set[str]:
        cells = stack.page("TRACER", "/status")["tracers"]
        return {each["result"] for each in cells if each["destination"] == f"lake.{_TRACERS}"}

    wait_until(lambda: in_lake() == {"landed"}, "tracers are in the lake", in_lake)
    _say(
        f"profiles watch and transforms: Prometheus scrapes {len(_JOBS)} services, {len(names)} rules are ok"
    )
    _say("tracers with the profile lake: they are in the lake")


def _await_targets(stack: ComposeStack, jobs: set[str]) -> None:
    def targets() -> list[tuple[str, str]]:
        active = stack.page("PROMETHEUS", "/api/v1/targets?state=active")["data"]["activeTargets"]
        return sorted((each["labels"]["job"], each["health"]) for each in active)

    wait_until(lambda: targets() == sorted((job, "up") for job in jobs), "every target is up", targets)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
