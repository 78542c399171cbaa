"""Figures, holds and a registry as those of a running installation, for tests and pictures of the pages."""

import math
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from services.admin.figures.lake_watch import LakeReading, LakeRow
from services.admin.figures.locations import Locations
from services.admin.figures.parts import Part
from services.admin.figures.reading import DatabaseFigures, Line, Reading, TypeFigures
from services.admin.figures.tracers_watch import TracersReading
from services.admin.figures.transforms_watch import TransformsReading
from services.admin.statements.day_statements import DayStatement
from services.ops.findings import Source
from services.ops.operate.holds_sql import Hold
from services.ops.operate.topics import TopicFacts
from services.ops.statement.balance import DestinationLine, Statement, TopicLine
from services.ops.transforms.kafka_totals import PartitionTotals, TransformTotals
from services.ops.transforms.overview import overview
from services.ops.transforms.reader import TransformFacts
from shared.figures import WriterDatabase
from shared.registry.transforms import digest_of_source
from shared.tracer_status import TracerCell, TracerHour
from shared.transform_state import PAUSED, TransformState
from tests.browser.seeds import keep, order
from tests.fixtures.ui import UiService
from tests.fixtures.writer import execute

_ORDERS: Final = {
    "owner": "shop",
    "destinations": [{"schema": "public", "table": "orders"}],
    "schema": {"type": "object", "properties": {"amount": {"type": "number"}}},
}
_DELAYS: Final = "def transform(event, lookup):\n    return None\n"
_BOTS: Final = "def transform(event, lookup):\n    return []\n"
#: Sections of the registry.
KNOWN: Final = {
    "event_types": {
        "order_placed": _ORDERS,
        "page_viewed": {"owner": "web"},
        "flight_departed": {},
        "flight_delayed": {},
    },
    "transforms": {
        "flight_delays": {
            "from": "flight_departed",
            "to": ["flight_delayed"],
            "lanes": 2,
            "source": _DELAYS,
            "digest": digest_of_source(_DELAYS),
        },
        "bots": {
            "from": "page_viewed",
            "to": ["flight_delayed"],
            "source": _BOTS,
            "digest": digest_of_source(_BOTS),
        },
    },
    "sources": {"shop": {"dsn_env": "ONRAMP_SOURCE_SHOP", "schemas": ["app"], "publish": "shop"}},
}
LANDING: Final = "onramp.events.onramp_probe"
PACKETS: Final = "onramp.public.onramp_probe"
#: The receipt of a parked event whose journey is known without Kafka.
RECEIPT: Final = "t/0/4000"
_HOLDS: Final = """
    INSERT INTO onramp.holds (kind, name, state, sqlstate) VALUES
        ('type', 'order_placed', 'paused', NULL), ('table', 'public.orders', 'blocked', '55P03');
    INSERT INTO onramp.halts (reason) VALUES ('the ledger of events.order_placed/0 is behind')
"""
_AUDITS: Final = """
    INSERT INTO onramp_admin.audits (actor, reason, state, finished_at, done, total, error)
    VALUES ('ada', 'end of the month', 'failed', now(), 3, 12, 'Kafka does not answer'),
           ('otto', 'end of the week', 'cancelled', now(), 1, 12, NULL)
"""
_RATES: Final = (
    ("order_placed", 22.9, 0.0, 79, "paused"),
    ("page_viewed", 45.5, 57.5, 0, "landing"),
    ("flight_departed", 0.0, 0.0, 0, "idle"),
    ("signup", 0.0, 0.0, 3, "landing"),
)


def plant_figures(service: UiService, *, is_writer_down: bool = False) -> None:
    """Set the figures that the pages show, at the time of the call."""
    now = datetime.now(UTC)
    down = Part("writer", "writer", is_up=False, since=now, reason="the connection was refused")
    service.figures.reading = _reading(now, (down,) if is_writer_down else ())
    service.figures.totals.topics = tuple(_topic(name, rate) for name, rate, *_ in sorted(_RATES))
    service.figures.totals.topics_at = now
    plant_completeness(service)
    plant_transforms(service)


def plant_lake(service: UiService) -> None:
    """Set five tables of the lake: one is well, one each is late, halted, not maintained and unknown."""
    now = datetime.now(UTC)
    rows = (
        LakeRow("flight_departed", 336_776, 365, 12, 90 << 20, 1_234, 3.0, now - timedelta(minutes=7)),
        LakeRow("order_placed", 1_204, 40, 40, 3 << 20, 52_000, 640.0, now - timedelta(hours=5)),
        LakeRow("payroll", 12, 1, 1, 4 << 10, 7, 4_000.0, halted="version 41 of the table is missing"),
        LakeRow("trains", 90, 3, 2, 9 << 10, 0, 2.0, error="the storage refuses to delete files"),
        LakeRow("weather"),
    )
    part = Part("lake", "the lake service", is_up=True, since=now)
    service.lake.reading = LakeReading(is_configured=True, at=now, tables=rows, parts=(part,))


def plant_transforms(service: UiService) -> None:
    """Set the totals of two transforms, one of which is paused."""
    now = datetime.now(UTC)
    counts = Counter(emitted=45_231, dropped=283_290, parked=8_255, filtered=0, outputs=45_231, deaths=0)
    partitions = [
        PartitionTotals(Source("events.flight_departed", n), 56_129, 3 * n, counts) for n in range(4)
    ]
    why = "5200 of the last 10000 events were parked"
    facts = TransformFacts(
        {"bots": TransformState(state=PAUSED, reason=why, at=now.isoformat())},
        {"flight_delays": TransformTotals(counts, partitions)},
    )
    views = tuple(overview(service.registry.snapshot(), facts))
    service.transforms.reading = TransformsReading(now, views)


def plant_completeness(service: UiService) -> None:
    """Set the results of tracers, one of which was lost three hours ago, and the statements of two days."""
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [
        TracerHour(hour - timedelta(hours=n), {"landed": 360}, 1.0 + n % 5 / 4) for n in range(23, -1, -1)
    ]
    cells = [_cell(f"{form}@gateway:8080", LANDING, hours, now) for form in ("batch", "ndjson", "single")]
    lost = TracerHour(hours[20].hour, {"landed": 359, "lost": 1}, 2.2)
    cells.append(_cell("kafka", PACKETS, [*hours[:20], lost, *hours[21:]], now))
    part = Part("tracer", "tracer", is_up=True, since=now)
    service.tracers.reading = TracersReading(is_configured=True, at=now, cells=tuple(cells), parts=(part,))
    service.days.today = _day(now.date(), 412_551, now)
    service.days.yesterday = _day(now.date() - timedelta(days=1), 1_204_331, now)


def _cell(entrance: str, destination: str, hours: list[TracerHour], now: datetime) -> TracerCell:
    day: Counter[str] = Counter()
    for each in hours:
        day.update(each.results)
    return TracerCell(
        entrance=entrance,
        destination=destination,
        result="landed",
        sent_at=now,
        seconds=1.2,
        day=dict(day),
        hours=tuple(hours),
    )


def _day(day: date, events: int, now: datetime) -> DayStatement:
    start = datetime.combine(day, time(), UTC)
    lines = [
        TopicLine(
            f"events.{name}",
            "onramp",
            events // share,
            0,
            0,
            0,
            0,
            [DestinationLine(f"onramp.events.{name}", events // share, {"landed": events // share})],
        )
        for name, share in (("flight_departed", 3), ("order_placed", 6), ("page_viewed", 2))
    ]
    end = min(start + timedelta(days=1), now)
    return DayStatement(day, Statement(lines=lines, times={"onramp": (start, end)}), now)


def plant_holds(writer_dsn: str, control_dsn: str) -> None:
    """Store a paused type, a blocked table, a halt and audits."""
    execute(writer_dsn, _HOLDS)
    execute(control_dsn, _AUDITS)


def plant_journey(control_dsn: str) -> None:
    """Store a parked event of a topic without an id, so that no other part must know its generation."""
    keep(control_dsn, [order(4_000, "12,50", topic_id=str(UUID(int=0)), column="voucher")])


def _reading(now: datetime, parts: tuple[Part, ...]) -> Reading:
    since = now - timedelta(minutes=68)
    locations = Locations(
        at=now, accepted=181_574, landed=130_719, duplicates=0, in_flight=629, waiting_database=50_144,
        waiting_kafka=0, open=82, replaying=0, not_stored=0, discarded=0, filtered=0, difference=0,
        oldest_waiting=since,
        holds=(Hold("onramp", "type", "order_placed", "paused", None, since, 50_144, since),),
    )  # fmt: skip
    writer = WriterDatabase(
        state="landing", waiting_database=50_144, connections=7, max_connections=10, size_bytes=94_000_000
    )
    return Reading(
        at=now,
        since=now - timedelta(hours=1),
        accepted=68.5,
        rejected=0.0,
        landed=57.5,
        duplicates=0.0,
        parked=0.0,
        accepted_line=_line(68.5),
        landed_line=_line(57.5),
        parked_line=_line(0.0),
        commit_p99=1.4,
        writer_state="landing",
        types=tuple(_type(*each) for each in _RATES),
        databases=(DatabaseFigures(name="onramp", landed=57.5, landed_line=_line(57.5), writer=writer),),
        parts=parts,
        locations=locations,
    )


def _type(name: str, accepted: float, landed: float, parked: int, state: str) -> TypeFigures:
    return TypeFigures(
        name=name,
        accepted=accepted,
        landed=landed,
        accepted_line=_line(accepted),
        parked=parked,
        lag_events=12 if landed else 0,
        lag_seconds=1.2 if landed else None,
        state=state,
    )


def _line(rate: float) -> Line:
    """Return an hour whose rates vary by a tenth; the first minutes are unknown."""
    return (None,) * 8 + tuple(rate * (1 + math.sin(n * 2.3) / 10) for n in range(52))


def _topic(name: str, rate: float) -> TopicFacts:
    given: dict[str, Any] = {"partitions": 6, "replicas": 3, "retention_ms": 604_800_000, "leaderless": 0}
    return TopicFacts(topic=f"events.{name}", events=90_787, rate=rate, lag=0, bytes=None, **given)
