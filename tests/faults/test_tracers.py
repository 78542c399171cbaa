"""Tracers on real services: results of an outage, of a lost row and of a second row."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from services.tracer.rounds import ANY_ENVELOPE
from services.tracer.rows_sql import LANDING, PACKETS
from shared import wire
from stack import services
from stack.postgres import Postgres
from stack.services import Service
from tests.faults.conftest import Ground
from tests.fixtures.fix_stack import StartWriter
from tests.fixtures.running_part import started
from tests.fixtures.second_database import Other
from tests.fixtures.writer import eventually, execute, produce, records

pytestmark = pytest.mark.full

LOST_SECONDS = 15
_DROP = f"""
    CREATE FUNCTION public.drop_row() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN DELETE FROM {LANDING} WHERE _id = NEW._id; RETURN NULL; END $$;
    CREATE TRIGGER drop_row AFTER INSERT ON {LANDING} FOR EACH ROW EXECUTE FUNCTION public.drop_row()
"""  # noqa: S608 - our own names
_TWICE = f"""
    CREATE FUNCTION public.land_twice() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {PACKETS} VALUES (NEW.id, NEW.entrance, NEW.sent_at); RETURN NULL; END $$;
    CREATE TRIGGER land_twice AFTER INSERT ON {PACKETS} FOR EACH ROW WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION public.land_twice()
"""  # noqa: S608


class Traced:
    """A tracer of the test, and its results."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(f"{self.service.url}{path}", timeout=10)

    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/status").json()["tracers"]
        return found

    def results(self, table: str = "") -> set[str]:
        return {each["result"] for each in self.cells() if each["destination"].endswith(table)}

    def day(self, result: str) -> int:
        return sum(each["day"].get(result, 0) for each in self.cells())


@pytest.fixture
def traced(
    ground: Ground, hung: Other, start_writer: StartWriter, tmp_path: Path
) -> Iterator[Callable[[], Traced]]:
    env = {"ONRAMP_WRITER_DATABASE": hung.name, "ONRAMP_WRITER_TOPICS": r"events\.onramp_probe"}
    writer = start_writer(ground.kafka.bootstrap, hung.dsn, env)
    made = services.tracer(
        gateway=ground.gateway,
        writer=writer.url,
        bootstrap=ground.kafka.bootstrap,
        dsn=hung.dsn,
        log=tmp_path / "tracer.log",
        env={
            "ONRAMP_WRITER_DATABASE": hung.name,
            "ONRAMP_TRACER_INTERVAL_SECONDS": "1",
            "ONRAMP_TRACER_LATE_SECONDS": "10",
            "ONRAMP_TRACER_LOST_SECONDS": str(LOST_SECONDS),
        },
    )
    with started(made):
        yield lambda: Traced(made)


def test_tracers_wait_for_a_stopped_database_and_land_when_it_returns(
    traced: Callable[[], Traced], breakable_postgres: Postgres
) -> None:
    tracer = traced()
    assert eventually(lambda: tracer.results() == {"landed"})
    breakable_postgres.kill()
    eventually(lambda: tracer.results() == {"waiting"})
    waiting = tracer.day("waiting")
    assert waiting
    breakable_postgres.start()
    breakable_postgres.wait_ready()
    eventually(lambda: tracer.results() == {"landed"} and not tracer.day("waiting"))
    assert (tracer.day("lost"), tracer.day("duplicate"), tracer.day("late")) == (0, 0, 0)


def test_a_killed_tracer_loses_no_result(traced: Callable[[], Traced]) -> None:
    tracer = traced()
    eventually(lambda: tracer.day("landed") > 20)
    before = tracer.day("landed")
    tracer.service.kill()
    tracer.service.start()
    tracer.service.wait_ready()
    assert tracer.day("landed") >= before
    eventually(lambda: tracer.results() == {"landed"})
    assert tracer.day("lost") == 0


def test_a_row_that_disappears_is_lost_and_a_second_row_is_a_duplicate(
    traced: Callable[[], Traced], hung: Other
) -> None:
    tracer = traced()
    eventually(lambda: tracer.results() == {"landed"})
    execute(hung.dsn, _DROP)
    execute(hung.dsn, _TWICE)
    eventually(lambda: tracer.results(PACKETS) == {"duplicate"})
    eventually(lambda: tracer.day("lost"))  # the newest ones are only late
    text = tracer.get("/metrics").text
    lost = [line for line in text.splitlines() if "tracer_recent" in line and '"lost"' in line]
    assert any(float(line.rsplit(" ", 1)[1]) > 0 for line in lost)


def test_an_envelope_that_is_on_kafka_twice_is_a_duplicate(
    traced: Callable[[], Traced], ground: Ground
) -> None:
    tracer, bootstrap = traced(), ground.kafka.bootstrap
    eventually(lambda: tracer.day("landed") > 10)  # of the second round: it knows the totals
    topic = wire.topic_of(wire.PROBE_EVENT)
    # The newest one: those of other tests are not in this database.
    envelopes = [r.value for r in records(bootstrap, topic) if r.value and b'"metadata"' in r.value]
    produce(bootstrap, topic, envelopes[-1:])
    eventually(lambda: tracer.day("duplicate"))
    assert [each["entrance"] for each in tracer.cells() if each["result"] == "duplicate"] == [ANY_ENVELOPE]
