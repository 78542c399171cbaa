"""`make test-compose`: builds the images, runs docker-compose.yml on free ports, and kills its services.

Each step prints its result. The first failure ends the run with its exception, after the cleanup.
"""

import resource
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from clients.python.onramp_client import Onramp
from clients.python.onramp_client.events import NewEvent
from stack.cache import cache_dir
from tests.compose.base_images import ensure_base_images
from tests.compose.engine import engine
from tests.compose.stack_run import ComposeStack, owned_by_images

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
            _optional(stack)
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
    _say("up: every service is healthy")
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


def _optional(stack: ComposeStack) -> None:
    """Services of other profiles become healthy; Prometheus and Grafana have no base image here."""
    stack.up("transform", profiles=("transforms",))
    stack.up("tracer", profiles=("watch",))
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.port('TRACER')}/status", timeout=30) as answer:
        assert answer.status == 200
    _say("profiles transforms and watch: the transform service and the tracer are healthy")


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
