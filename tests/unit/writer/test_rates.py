"""Rows per second: ranges that the driver plans, and pieces in which the drainer lands them."""

from services.writer.batching.fair_share import FairShare
from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.drain import Events, pieces
from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition, Range
from tests.fixtures.writer import TOPIC_ID

SLOW, FREE = Partition("events.slow", 0), Partition("events.free", 0)
BACKLOG = {SLOW: (0, 5000), FREE: (0, 5000)}


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def done(partition: Partition, database: str, read: int, rows: int) -> list[TaskReport]:
    return [TaskReport(*partition, read=read), TaskReport(*partition, database=database, rows=rows)]


def sizes(
    rate_limiter: RateLimiter, landing: tuple[str, ...] = ("db", "other"), limit: int = 9000
) -> tuple[int, int]:
    found = rate_limiter.share(BACKLOG, limit, landing, FairShare(0))
    return tuple(found[p][1] - found[p][0] if p in found else 0 for p in (SLOW, FREE))  # type: ignore[return-value]


def test_without_limits_a_batch_is_what_it_was() -> None:
    assert sizes(RateLimiter({})) == (4500, 4500)


def test_a_batch_takes_a_seconds_rows_and_the_next_what_time_has_brought() -> None:
    time = Time()
    rate_limiter = RateLimiter({"db": 100}, time)
    rate_limiter.count(done(FREE, "db", 10, 0))
    assert sizes(rate_limiter) == (100, 5000)
    rate_limiter.count(done(SLOW, "db", 100, 100))
    assert sizes(rate_limiter) == (0, 5000)
    time.now += 0.25
    assert sizes(rate_limiter) == (25, 5000)
    time.now += 3600
    assert sizes(rate_limiter) == (100, 5000), "what was not used is not saved up"


def test_an_event_that_is_several_rows_counts_as_many() -> None:
    time = Time()
    rate_limiter = RateLimiter({"db": 100}, time)
    rate_limiter.count([*done(SLOW, "db", 10, 20), *done(FREE, "db", 10, 0)])
    time.now += 60
    assert sizes(rate_limiter) == (50, 5000)


def test_rows_above_the_limit_are_compensated_before_new_rows_are_planned() -> None:
    time = Time()
    rate_limiter = RateLimiter({"db": 100}, time)
    rate_limiter.count([*done(SLOW, "db", 300, 300), *done(FREE, "db", 1, 0)])
    time.now += 1.9
    assert sizes(rate_limiter) == (0, 5000)
    time.now += 0.2
    assert 0 < sizes(rate_limiter)[0] <= 10


def test_partition_without_history_is_treated_as_slow() -> None:
    assert sizes(RateLimiter({"db": 100}, Time())) == (50, 50)


def test_a_database_that_is_out_slows_nothing() -> None:
    assert sizes(RateLimiter({"db": 100}, Time()), landing=("other",)) == (4500, 4500)


def test_smaller_of_two_database_limits_applies() -> None:
    assert sum(sizes(RateLimiter({"db": 100, "other": 30}, Time()))) == 30


def test_a_failed_range_teaches_and_costs_nothing() -> None:
    rate_limiter = RateLimiter({"db": 100}, Time())
    rate_limiter.count(
        [
            TaskReport(*SLOW, read=10),
            TaskReport(*SLOW, database="db", failure="database_unavailable", rows=10),
        ]
    )
    assert sizes(rate_limiter) == (50, 50)


def test_a_drained_range_is_cut_so_that_each_piece_has_few_events_and_none_is_left_out() -> None:
    events: Events = {o: ({}, None, None) for o in (3, 4, 7, 8, 15)}
    whole = Range(TOPIC_ID, SLOW, 2, 20)
    found = list(pieces(whole, events, 2))
    assert [(r.start, r.end, sorted(of_it)) for r, of_it in found] == [
        (2, 7, [3, 4]),
        (7, 15, [7, 8]),
        (15, 20, [15]),
    ]
    assert list(pieces(whole, events, None)) == [(whole, events)]
    assert list(pieces(whole, {}, 2)) == [(whole, {})]


def test_however_many_are_slow_the_others_have_what_they_had() -> None:
    rate_limiter, fair_share = RateLimiter({"db": 100}, Time()), FairShare(0)
    fast = {Partition("events.fast", n): (0, 1_000_000) for n in range(4)}
    slow = {Partition("events.slow", n): (0, 1_000_000) for n in range(400)}
    for p in fast:
        rate_limiter.count(done(p, "db", 10, 0))
    for _ in range(10):
        found = rate_limiter.share(fast | slow, 20_000, ["db"], fair_share)
        assert sum(end - start for p, (start, end) in found.items() if p in fast) >= 19_900


def test_ranges_planned_without_a_database_can_overrun_its_limit() -> None:
    rate_limiter = RateLimiter({"db": 100, "other": 1000}, Time())
    planned = [Range(TOPIC_ID, SLOW, 0, 80), Range(TOPIC_ID, FREE, 0, 80)]
    assert rate_limiter.overrun(planned) == {"db"}, "each event may be a row of it"
    rate_limiter.count(done(FREE, "db", 10, 0))
    assert rate_limiter.overrun(planned) == set(), "of one partition it is known that none is"


def test_ranges_planned_with_a_database_never_overrun_its_limit() -> None:
    time = Time()
    rate_limiter = RateLimiter({"db": 100}, time)
    rate_limiter.count([*done(SLOW, "db", 300, 100), *done(FREE, "db", 7, 3)])
    time.now += 3600
    shares = rate_limiter.share(BACKLOG, 9000, ["db"], FairShare(0))
    assert shares
    assert rate_limiter.overrun([Range(TOPIC_ID, p, *span) for p, span in shares.items()]) == set()
