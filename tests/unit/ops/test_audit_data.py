"""Arithmetic of the audit's data: histories of ranges, and the cost of a long outage."""

import pytest

from services.ops.audit.audit_data import AuditData, DatabaseData, ParkedEvent, between
from services.ops.audit.checks import check_markers, line_of
from services.ops.audit.reconcile import Sums
from services.ops.audit.settled_log import SettledLog
from services.ops.findings import Generation, Source
from services.ops.offset_ranges import History, Span
from services.ops.parked.records import Marker

SOURCE = Source("events.x", 0)
GENERATION = Generation("t", SOURCE)


@pytest.mark.parametrize(
    ("written", "ledger", "spans"),
    [
        ([], 9, []),
        ([(0, 5, "a"), (5, 9, "b")], 9, [(0, 5, "a"), (5, 9, "b")]),
        ([(0, 5, "a"), (5, 9, "b"), (3, 12, "c")], 12, [(0, 3, "a"), (3, 12, "c")]),
        ([(0, 5, "a"), (0, 7, "b")], 7, [(0, 7, "b")]),
        ([(0, 5, "a"), (5, 9, "b")], 4, [(0, 4, "a")]),  # the ledger went back, and nothing came since
    ],
)
def test_last_settled_range_replaces_the_earlier_ranges_that_it_overlaps(
    written: list[tuple[int, int, str]], ledger: int, spans: list[tuple[int, int, str]]
) -> None:
    assert [*History.of((Span(*s) for s in written), ledger).spans] == spans


def test_offsets_between_settled_ranges_are_gaps() -> None:
    history = History((Span(2, 5, "a"), Span(7, 9, "b")))
    assert [history.at(o) for o in range(1, 10)] == [None, "a", "a", "a", None, None, "b", "b", None]
    assert [*history.gaps(9)] == [(5, 7)]
    assert [*history.gaps(12)] == [(5, 7), (9, 12)]
    assert [*History().gaps(12)] == []
    assert (history.began_before(1), history.began_before(2)) == (False, True)


class Offset(int):
    """An offset that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Offset.compared += 1
        return super().__lt__(other)

    __gt__ = __le__ = __ge__ = None  # type: ignore[assignment]


def _marker(start: int, end: int, *, count: int) -> Marker:
    return Marker(database="db", topic_id="t", source=SOURCE, start=start, end=end, count=count)


def _outage(n: int) -> AuditData:
    """A database that was out for n batches, one event each."""
    database = DatabaseData(
        ledger={GENERATION: 0}, totals={}, outbox=frozenset(), waiting=frozenset(), counts={}, repeated=()
    )
    return AuditData(
        databases={"db": database},
        settled=SettledLog(),
        group={},
        parked={},
        diverted={("db", SOURCE): [Offset(i) for i in range(n)]},
        markers={("db", GENERATION): [_marker(i, i + 1, count=1) for i in range(n)]},
        spans={},
    )


def test_markers_of_a_long_outage_are_checked_by_lookup_instead_of_a_scan() -> None:
    data, n = _outage(4000), 4000
    Offset.compared = 0
    assert len(data.waiting("db", GENERATION)) == n
    assert list(check_markers(data, GENERATION)) == []
    assert Offset.compared < 60 * n  # two looks at two ends each, 12 steps; it was 48,004,000


def test_markers_that_overlap_count_an_event_once() -> None:
    data = _outage(6)
    markers = [_marker(*span, count=3) for span in ((0, 3), (1, 4), (0, 6))]
    data = AuditData(
        databases=data.databases,
        settled=SettledLog(),
        group={},
        parked={},
        diverted=data.diverted,
        markers={("db", GENERATION): markers},
        spans={},
    )
    assert data.waiting("db", GENERATION) == set(range(6))
    assert [f.offset for f in check_markers(data, GENERATION)] == [0]
    assert list(between([1, 3, 5], 2, 5)) == [3]


def test_events_that_wait_for_two_databases_reconcile_by_totals_alone() -> None:
    """Its events are in no other database: a third one is reachable, and has none of them."""
    out = _outage(5)
    away, up = (
        out.databases["db"],
        DatabaseData(
            ledger={GENERATION: 5}, totals={}, outbox=frozenset(), waiting=frozenset(), counts={}, repeated=()
        ),
    )
    [diverted], [markers] = out.diverted.values(), out.markers.values()
    data = AuditData(
        databases={"one": away, "two": away, "up": up},
        settled=SettledLog(),
        group={},
        parked={},
        diverted={(name, SOURCE): diverted for name in ("one", "two")},
        markers={(name, GENERATION): markers for name in ("one", "two")},
        spans={},
    )
    assert list(Sums(data, GENERATION, line_of(data, GENERATION), None).findings()) == []


def test_parked_events_of_a_retired_database_are_not_those_of_one_whose_name_it_continues() -> None:
    database = DatabaseData(
        ledger={GENERATION: 9}, totals={}, outbox=frozenset(), waiting=frozenset(), counts={}, repeated=()
    )
    destinations = ["main.public.t", "main.b.public.t", "", "/pipeline_context/destinations/0", "other.s.t"]
    data = AuditData(
        databases={"main": database},
        settled=SettledLog(),
        group={},
        parked={each: ParkedEvent(SOURCE, n, each) for n, each in enumerate(destinations)},
        diverted={},
        markers={},
        spans={},
        closed={"main.b": None},
    )
    assert [data.database_of(each) for each in destinations] == ["main", "main.b", None, None, ""]
    assert data.parked_keys(GENERATION, "main", 9) == {(0, "main.public.t")}
    assert data.parked_keys(GENERATION, None, 9) == {(2, ""), (3, destinations[3])}
