"""Unexpected errors in each step: the event is parked, or its table or database waits; others land."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import psycopg2
import pytest

from tests.fixtures.inline import Inline
from tests.fixtures.scenes import Scene, ready
from tests.fixtures.second_database import Other
from tests.fixtures.two_topics import POISON, Bug, Two, ids
from tests.fixtures.writer import event, eventually

#: What the writer says when it has met the bug and somebody has to know.
SAID = {
    "a diverted range cannot drain because of an unexpected error",
    "waiting events cannot be released because of an unexpected error",
}
EVENTS = [*ids(0, 20), POISON, *ids(20, 20)]


class Met(NamedTuple):
    """A writer whose step has met the poison, or is about to."""

    two: Two
    other: Other
    writer: Inline
    log: pytest.LogCaptureFixture
    #: Where all that was sent is to land.
    into: tuple[str, ...]

    def has_landed(self, *ids: str) -> bool:
        return all(self.two.landed(dsn) == set(ids) for dsn in self.into)


# --- how the poison comes to a step -----------------------------------------------------------


def by_batch(two: Two, _: Other, arm: Callable[[], None]) -> tuple[Inline, tuple[str, ...]]:
    arm()
    two.send(*EVENTS)
    return two.writer(), (two.scene.dsn,)


def by_diversion(two: Two, other: Other, arm: Callable[[], None]) -> tuple[Inline, tuple[str, ...]]:
    writer = _first(two, other)
    other.close()
    arm()
    two.send(*EVENTS)
    return writer, (two.scene.dsn,)


def by_drain(two: Two, other: Other, arm: Callable[[], None]) -> tuple[Inline, tuple[str, ...]]:
    writer = _first(two, other)
    other.close()
    two.send(*EVENTS)
    eventually(lambda: two.landed() == set(two.sent))
    eventually(lambda: writer.states[other.name] == "out")
    arm()
    other.open()
    return writer, (other.dsn,)


def by_release(two: Two, _: Other, arm: Callable[[], None]) -> tuple[Inline, tuple[str, ...]]:
    writer = _first(two)
    with _locked(two.scene.dsn, f"events.{two.scene.name}"):
        two.send(*EVENTS)
        eventually(lambda: two.scene.totals().get("waiting") == len(EVENTS))
        arm()
    return writer, (two.scene.dsn,)


def _first(two: Two, *others: Other) -> Inline:
    """A writer that has landed an event everywhere."""
    writer = two.writer(*others)
    two.send("first")
    eventually(lambda: all(two.landed(dsn) == {"first"} for dsn in ("", *(o.dsn for o in others))))
    return writer


@contextmanager
def _locked(dsn: str, table: str) -> Iterator[None]:
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


# --- what becomes of it -----------------------------------------------------------------------


def parked_in(step: str) -> Callable[[Met], set[str]]:
    def parked(met: Met) -> set[str]:
        """Check that only this event is parked, byte for byte, with its code and without a value."""
        [kept] = eventually(met.two.parked)
        assert kept.value == event(POISON, met.two.scene.name)
        assert kept.error["code"] == f"internal_{step}"
        assert "FailpointError" in kept.error["detail"]
        assert POISON not in kept.error["detail"]
        return {POISON}

    return parked


def set_aside(met: Met) -> set[str]:
    """Check that the partition is halted at the event, and all earlier ones have landed."""
    at = met.two.sent.index(POISON)
    why = eventually(lambda: met.two.why(met.writer))
    assert f"fails at offset {at} " in why
    assert "FailpointError" in why
    assert POISON not in why
    eventually(lambda: set(met.two.sent[:at]) <= met.two.landed())
    return set()


def waits(met: Met) -> set[str]:
    """Check that the event is on its topic, nothing is parked, and the log has an error."""
    eventually(lambda: SAID & {r.getMessage() for r in met.log.records})
    assert met.two.parked() == []
    assert not any(POISON in met.two.landed(dsn) for dsn in met.into)
    return set()


STEPS: dict[str, tuple[Callable[..., Any], Callable[[Met], set[str]]]] = {
    "read": (by_batch, set_aside),
    "sort": (by_batch, parked_in("sort")),
    "park": (by_batch, set_aside),
    "persist": (by_batch, parked_in("persist")),
    "keep": (by_batch, set_aside),
    "report": (by_batch, set_aside),
    "divert": (by_diversion, set_aside),
    "release": (by_release, waits),
    "release-persist": (by_release, parked_in("persist")),
    "drain": (by_drain, waits),
    "drain-sort": (by_drain, waits),
    "drain-persist": (by_drain, parked_in("persist")),
}


@pytest.mark.parametrize("step", STEPS)
def test_record_that_makes_a_step_raise_does_not_stop_other_records(
    two: Two, other: Other, bug: Bug, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    comes, becomes = STEPS[step]
    writer, into = comes(two, other, lambda: bug.at(step.rsplit("-", maxsplit=1)[-1]))
    met = Met(two, other, writer, caplog, into)
    two.the_other_lands()
    gone = becomes(met)
    two.the_other_lands()
    if comes is not by_batch:
        assert writer.job._backoff._failures == 0, "the loop was never begun again"
    bug.fix()
    eventually(lambda: met.has_landed(*set(two.sent) - gone))
    other.open()
    others = (other,) if comes in (by_diversion, by_drain) else ()
    eventually(lambda: all(two.landed(o.dsn) == set(two.sent) - gone for o in others))
    eventually(lambda: not writer.refused)
    two.scene.audited(*others)


def test_a_table_at_which_every_event_raises_waits_and_nothing_is_parked(two: Two, bug: Bug) -> None:
    bug.at("persist", "e-")
    two.send(*ids(0, 40))
    writer = two.writer()
    two.the_other_lands()
    eventually(lambda: two.scene.totals().get("waiting") == 40)
    assert two.parked() == []
    assert writer.states[two.scene.database] == "landing"
    # If a bug ends between two halves of a batch, some events fail where others pass: they are parked.
    writer.stop()
    bug.fix()
    two.writer()
    eventually(lambda: two.landed() == set(ids(0, 40)))
    assert two.parked() == []


@pytest.mark.full
def test_a_real_writer_goes_on_past_records_at_which_its_steps_raise(scene: Scene) -> None:
    two = Two(scene)
    bugs = {"sort": "in-sort", "persist": "in-persist", "read": "in-read"}
    # Each has neighbours: a Spark worker ends with what it raises, and the next has seen nothing pass.
    two.send(*(i for n, of in enumerate(bugs.values()) for i in (*ids(10 * n, 10), of)), *ids(30, 10))
    armed = ",".join(f"writer.{step}=raise:{of}" for step, of in bugs.items())
    writer: Any = two.writer(failpoints=armed)
    two.the_other_lands()
    eventually(lambda: two.landed() == set(ids(0, 30)), 120)
    eventually(
        lambda: (
            {r.error["code"]: r.value for r in two.parked()}
            == {f"internal_{step}": event(bugs[step], scene.name) for step in ("sort", "persist")}
        )
    )
    why = eventually(lambda: "".join(ready(writer)[1]["halted_partitions"].values()))
    assert "fails at offset 32 " in why
    assert "FailpointError" in why
    two.the_other_lands()
