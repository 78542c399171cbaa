"""The reader of a slot, and gaps caused by another process that consumed from the slot."""

import pytest

from services.cdc.health.slot import Reader, Readers, Slot, lsn_number, lsn_text
from services.cdc.health.slot_watch import SlotWatch

OWN, PSQL = "Debezium Streaming", "psql"


def slot(confirmed: int, program: str = "", pid: int | None = 7) -> Slot:
    return Slot(
        active=bool(program),
        wal_status="reserved",
        retained_bytes=0,
        confirmed_lsn=lsn_text(confirmed),
        pid=pid if program else None,
        program=program,
    )


def seen(*looks: Slot) -> SlotWatch:
    """A watch after these polls, of which only the last one is evaluated."""
    watch = SlotWatch()
    for each in looks:
        watch.see(each)
        watch.note_reader(each, Readers())
    return watch


def consumed_by_other(*looks: Slot, sent: int = 0) -> str:
    return seen(*looks).consumed_by_other(looks[-1], lambda: sent)


def test_positions_are_read_and_written_as_postgres_does() -> None:
    assert (lsn_number("16/B374D848"), lsn_text(lsn_number("16/B374D848"))) == (97500059720, "16/B374D848")


@pytest.mark.parametrize(
    "looks",
    [
        [slot(10)],
        [slot(10, OWN), slot(20, OWN)],
        [slot(10, OWN), slot(20)],
        [slot(10, OWN), slot(20), slot(20), slot(30, OWN)],
        [slot(10, OWN), slot(10, PSQL)],
    ],
)
def test_position_that_the_connector_can_have_confirmed_is_no_gap(looks: list[Slot]) -> None:
    assert consumed_by_other(*looks) == ""


@pytest.mark.parametrize(
    "looks",
    [
        [slot(10, OWN), slot(10), slot(20)],
        [slot(10, OWN), slot(20, PSQL)],
        [slot(10, OWN), slot(10, PSQL), slot(20)],
    ],
)
def test_slot_moved_without_the_connector_is_a_gap_unless_its_offset_covers_it(looks: list[Slot]) -> None:
    assert "from 0/A to 0/14" in consumed_by_other(*looks)
    assert "from 0/F to 0/14" in consumed_by_other(*looks, sent=15)
    assert consumed_by_other(*looks, sent=20) == ""


def test_other_onramp_is_identified_by_the_session_that_blocks_the_connector() -> None:
    other = slot(10, OWN, pid=99)
    watch = seen(other)
    assert watch.other_program(other) == ""
    watch.note_failure('ERROR: replication slot "onramp_shop" is active for PID 99')
    watch.note_reader(other, Readers())
    assert "PID 99" in watch.other_program(other)


def test_gap_is_detected_by_a_new_agent_from_the_stored_readers() -> None:
    watch, now = SlotWatch(), slot(20)
    watch.note_reader(now, Readers(last=Reader.NOBODY, own=10))
    assert watch.consumed_by_other(now, lambda: 0)


def test_a_connector_that_sends_nothing_is_helped_now_and_then() -> None:
    now = 0.0
    watch = SlotWatch(lambda: now)

    def helped(slot_: Slot, at: float) -> bool:
        nonlocal now
        now = at
        watch.see(slot_)
        return watch.is_lost(slot_)

    assert not watch.is_lost(None)
    # An agent that begins finds nobody at the slot.
    assert not helped(slot(10), -100)
    assert [helped(slot(10, OWN), at) for at in (-90, -88, -87)] == [False, False, True]
    assert not helped(slot(9, OWN), -50)
    assert not helped(slot(10, OWN), 0)
    assert [helped(slot(10, OWN), at) for at in (2, 3, 4, 12, 13, 14)] == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    assert not helped(slot(11, OWN), 30)
    assert not helped(slot(11), 60)  # nobody reads it


@pytest.mark.parametrize("program", ["Debezium Streaming", ""])
def test_liveness_timeout_is_reported_with_a_hint_to_the_kafka_connect_log(program: str) -> None:
    now = 0.0
    watch = SlotWatch(lambda: now)
    watch.see(None)
    watch.see(slot(10, program))
    watch.note_streams(streams=False)
    now = 1000.0  # so long takes the first snapshot
    assert watch.silence == []
    watch.note_streams(streams=True)
    now = 1031.0
    watch.see(slot(10, program))
    watch.note_streams(streams=True)
    assert watch.silence == ["no heartbeat for 31 s: if that stays, Kafka Connect's log says why"]
    watch.see(slot(20, "Debezium Streaming"))
    assert watch.silence == []
