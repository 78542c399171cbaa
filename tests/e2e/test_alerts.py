"""`onramp up --prometheus` with the real rules: an outage of a database fires and ends its alert."""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2
import pytest

from docs.dashboards import DASHBOARDS
from tests.fixtures.second_database import Other
from tests.fixtures.up import StartUp
from tests.fixtures.writer import envelope, eventually

pytestmark = pytest.mark.full

OUT = 'ALERTS{alertname="OnrampDatabaseOut",alertstate="firing"}[1h]'
OTHER_PAGES = 'count(ALERTS{severity="page",alertstate="firing",alertname!="OnrampDatabaseOut"})'
FIRING = 'count(ALERTS{alertstate="firing",alertname!="OnrampWatchdog"})'
STATE_OUT = 'max(onramp_writer_database_state{state="out"})'
LAG = "sum(onramp_writer_lag_events)"
#: Panels of what does not happen in this test.
NOT_HERE = {
    "Batches that failed, by code",
    "Days until a key expires",
    "Holds: tables that take no rows, types that are paused",
    "Parked, by database and event type",
    "Rejected, by key and code",
    "Warnings, by table",
    "Syslog, by transport and outcome",
}


@pytest.mark.usefixtures("programs")
def test_a_stopped_database_is_the_only_page_and_everything_resolves_after_its_return(up: StartUp) -> None:
    run = up("--events", "500", "--prometheus")
    run.until("Ctrl-C stops everything")
    prometheus = Asked(run.until(r"Alerts    (http://\S+)").group(1))
    gateway = run.until(r"Gateway   (http://\S+)").group(1)
    key = run.until(r"Key       (onramp_dev_\S+)").group(1)
    dsn = run.until(r"Postgres  (\S+)").group(1)
    database = Other(urlunsplit(urlsplit(dsn)._replace(path="/postgres")), urlsplit(dsn).path.lstrip("/"))
    eventually(lambda: prometheus.now(LAG) == 0)
    eventually(lambda: prometheus.now(FIRING) is None)

    database.close()
    send(gateway, key, 200)
    eventually(lambda: prometheus.history(OUT))
    eventually(lambda: (prometheus.now(LAG) or 0) >= 200)  # tracers wait, too
    database.open()
    eventually(lambda: prometheus.now(LAG) == 0)
    eventually(lambda: prometheus.now(FIRING) is None)

    # In Prometheus' own evaluations, one every five seconds: a slow machine takes no more of them.
    out = [at for at, value in prometheus.history(STATE_OUT).items() if value]
    fired = prometheus.history(OUT)
    assert prometheus.evaluations(min(out), min(fired)) <= 6
    assert prometheus.evaluations(max(out), max(fired)) <= 12
    assert prometheus.history(OTHER_PAGES) == {}
    panels = [panel for _, panels in DASHBOARDS.values() for panel in panels]
    empty = {title for title, _, queries in panels if not any(prometheus.has(query) for query, _ in queries)}
    assert empty <= NOT_HERE


class Asked:
    """The answers of Prometheus to queries that find one series."""

    def __init__(self, url: str) -> None:
        self._url = url

    def now(self, query: str) -> float | None:
        found = self._ask(query)
        return float(found[0]["value"][1]) if found else None

    def has(self, query: str) -> bool:
        """Whether a query finds anything at all, now."""
        return bool(self._ask(query))

    def history(self, query: str) -> dict[float, float]:
        """Values by the time of their evaluation; none if there are none."""
        found = self._ask(f"{query}[1h:1s]" if "[" not in query else query)
        assert len(found) <= 1, query
        return {at: float(value) for at, value in found[0]["values"]} if found else {}

    def evaluations(self, since: float, until: float) -> int:
        """How often the rules were evaluated in between."""
        watchdog = self.history('ALERTS{alertname="OnrampWatchdog",alertstate="firing"}[1h]')
        return len([at for at in watchdog if since < at <= until])

    def _ask(self, query: str) -> list[Any]:
        answer = httpx2.get(f"{self._url}/api/v1/query", params={"query": query}, timeout=60)
        result: list[Any] = answer.json()["data"]["result"]
        return result


def send(gateway: str, key: str, n: int) -> None:
    body = b",".join(envelope(f"outage-{i}", "order_placed", b'{"total":42}') for i in range(n))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    answer = httpx2.post(f"{gateway}/v1/events", content=b"[%b]" % body, headers=headers, timeout=60)
    assert answer.is_success, answer.text
