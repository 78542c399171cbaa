"""Alerts of a real Prometheus: each fault of a gateway or writer fires its own alert and no other page."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from docs.dashboards import DASHBOARDS
from services.writer.observe.status_server import StatusServer
from stack.prometheus import JOB_GATEWAY, JOB_WRITER, RULES, Programs, Prometheus
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import HasDsn
from tests.fixtures.inline import Inline
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import envelope, eventually

pytestmark = pytest.mark.full

#: Instead of the rules' own patience, of minutes.
PATIENCE = "2s"
LAG = "sum(onramp_writer_lag_events)[1h:1s]"
#: Panels of what does not happen in this test.
NO_DATA_HERE = {
    # This writer has no Spark.
    "Busy share of Spark's slots",
    "Heap of the JVM and its limit",
    "Share of time that garbage collectors take",
    "Batches that failed, by code",
    "Days until a key expires",
    "Holds: tables that take no rows, types that are paused",
    "Rejected, by key and code",
    "Warnings, by table",
    "Syslog, by transport and outcome",
}
Alert = dict[str, Any]


class Looking:
    """The answers of a Prometheus, and every page alert that fired meanwhile."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.pages: set[str] = set()

    def firing(self) -> set[str]:
        """The names of all alerts that fire, without the one that always does."""
        names = {alert["labels"]["alertname"] for alert in self.alerts()}
        return names - {"OnrampWatchdog"} if "OnrampWatchdog" in names else {"nothing is evaluated yet"}

    def alerts(self) -> list[Alert]:
        found = [alert for alert in self._ask("alerts")["alerts"] if alert["state"] == "firing"]
        self.pages |= {a["labels"]["alertname"] for a in found if a["labels"]["severity"] == "page"}
        return found

    def empty_panels(self) -> set[str]:
        """The titles of panels without any data."""
        panels = [panel for _, panels in DASHBOARDS.values() for panel in panels]
        return {
            title
            for title, _, queries in panels
            if not any(self._ask("query", query=query)["result"] for query, _ in queries)
        }

    def history(self, query: str, since: float, until: float = math.inf) -> dict[float, float]:
        """The values of a query that finds one series, at Prometheus' own times."""
        found = self._ask("query", query=query)["result"]
        assert len(found) <= 1, query
        samples = found[0]["values"] if found else []
        return {at: float(value) for at, value in samples if since < at <= until}

    def evaluations(self, since: float, until: float) -> int:
        """How often the rules were evaluated."""
        return len(self.history('ALERTS{alertname="OnrampWatchdog",alertstate="firing"}[1h]', since, until))

    def value(self, query: str) -> float:
        result = self._ask("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else -1.0

    def _ask(self, what: str, **parameters: str) -> dict[str, Any]:
        answer = httpx2.get(f"{self._url}/api/v1/{what}", params=parameters, timeout=60)
        data: dict[str, Any] = answer.json()["data"]
        return data


@pytest.fixture
def impatient(tmp_path: Path) -> Path:
    """The rules, each with the same short patience."""
    folder = tmp_path / "rules"
    folder.mkdir()
    for file in RULES.glob("*.yml"):
        rules = yaml.safe_load(file.read_text("utf-8"))
        for group in rules["groups"]:
            group["rules"] = [r | {"for": PATIENCE} if "for" in r else r for r in group["rules"]]
        (folder / file.name).write_text(yaml.safe_dump(rules), "utf-8")
    return folder


@pytest.fixture
def writer(inline: Scene) -> Inline:
    # Other tests count at once (tests/conftest.py); here a new counter is at 0 for several scrapes.
    writer = inline.writer(metrics_seconds=1, new_counter_seconds=15)
    assert isinstance(writer, Inline)
    return writer


@pytest.fixture
def looking(
    ground: Ground, writer: Inline, impatient: Path, programs: Programs, tmp_path: Path
) -> Iterator[Looking]:
    server = StatusServer(writer.job._status, "127.0.0.1", 0).start()
    targets = {JOB_GATEWAY: ground.gateway, JOB_WRITER: f"http://127.0.0.1:{server.port}"}
    prometheus = Prometheus(tmp_path / "prometheus", targets, programs=programs, rules=impatient, seconds=1)
    try:
        with started(prometheus):
            yield Looking(prometheus.url)
    finally:
        server.stop()


def test_a_database_that_is_out_pages_alone_and_the_first_parked_events_are_a_ticket(
    inline: Scene, looking: Looking, postgres: HasDsn
) -> None:
    database = Other(postgres.dsn, "").sibling(inline.dsn)
    eventually(lambda: looking.value("count(onramp_writer_records_total)") > 0)
    inline.send(50)
    eventually(lambda: looking.value("sum(rate(onramp_writer_records_total[5m]))") > 0)
    eventually(lambda: looking.firing() == set())
    looking.pages.clear()

    stopped = time.time()
    database.close()
    eventually(lambda: looking.firing() == {"OnrampDatabaseOut"})
    inline.send(300)
    # In the history, whose last look may be a second older than now.
    eventually(lambda: max(looking.history(LAG, stopped).values(), default=0) >= 300)
    (alert,) = (a for a in looking.alerts() if a["labels"]["severity"] == "page")
    assert alert["annotations"]["summary"] == f"The database {inline.database} is unreachable."
    returned = time.time()
    database.open()

    eventually(lambda: looking.firing() == set())
    eventually(lambda: inline.landed() == inline.accepted)
    eventually(lambda: looking.value("sum(onramp_writer_lag_events)") == 0)

    send_unstorable(inline, 100)
    eventually(lambda: "OnrampParkedShare" in looking.firing())
    (alert,) = (a for a in looking.alerts() if a["labels"]["alertname"] == "OnrampParkedShare")
    assert (alert["labels"]["database"], alert["labels"]["event_type"]) == (inline.database, inline.name)
    assert looking.pages == {"OnrampDatabaseOut"}
    was_right_and_in_time(looking, stopped, returned)  # by now its history has every second of the outage
    assert looking.empty_panels() <= NO_DATA_HERE


def was_right_and_in_time(looking: Looking, stopped: float, returned: float) -> None:
    """Read Prometheus' samples of the outage at its own times, independent of the machine's speed."""
    out = looking.history('sum(onramp_writer_database_state{state="out"})[1h:1s]', stopped)
    seen = min(at for at, value in out.items() if value)
    back = min(at for at, value in out.items() if at > seen and not value)
    fired = looking.history('ALERTS{alertname="OnrampDatabaseOut",alertstate="firing"}[1h]', stopped)
    # The first evaluation that sees it, two for the patience of 2 s, and one that may fall between.
    assert looking.evaluations(seen, min(fired)) <= 4
    assert looking.evaluations(back, max(fired)) <= 1
    # No other page for a single evaluation either: not only when this test looked.
    others = 'ALERTS{severity="page",alertstate="firing",alertname!="OnrampDatabaseOut"}'
    assert looking.history(f"count({others})[1h:1s]", stopped) == {}
    lag = looking.history(LAG, seen, min(returned, back))
    assert list(lag.values()) == sorted(lag.values())
    assert lag[max(lag)] >= 300
    assert len(lag) == len([at for at in out if seen < at <= min(returned, back)]), "no moment without a lag"


def send_unstorable(scene: Scene, n: int) -> None:
    """POST events with a NUL, which no jsonb takes."""
    body = b",".join(envelope(f"nul-{i}", scene.name, b'{"note":"\\u0000"}') for i in range(n))
    headers = {"content-type": "application/json"}
    assert httpx2.post(
        f"{scene._gateway}/v1/events", content=b"[%b]" % body, headers=headers, timeout=60
    ).is_success
