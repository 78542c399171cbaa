"""`onramp statement` and `onramp tracer status`: exit codes, and the names of the parts that decide them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import orjson
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner, Result

from services.admin.api.queries import StatementQuery
from services.cli.app import app
from services.ops.statement.balance import Period, statement
from services.ops.statement.reading import Counts, DatabaseReading, TopicReading, Uncounted
from services.tracer import status
from services.tracer.results import Destination, Tracer, Watch
from services.tracer.results import Result as Outcome
from tests.fixtures.raw_server import answer, serving

TOPIC = "events.order"
HERE = Destination("onramp", "events.onramp_probe")


def found(landed: int, *, uncounted: Uncounted | None = None, **missing: str) -> dict[str, Any]:
    """Return the statement of three records, of which some landed."""
    counts = {"events.order": Counts(3, {"landed": landed})}
    topic = TopicReading(TOPIC, {0: 3}, {0: 0}, counts, uncounted=uncounted or Uncounted())
    reading = DatabaseReading(datetime.now(UTC), {"id": topic})
    return statement({"onramp": Period(None, reading)}, missing=missing).as_dict()


@pytest.fixture
def invoke() -> Iterator[Callable[..., Result]]:
    with serving() as server:

        def answered(document: dict[str, Any], *command: str) -> Result:
            server.script = lambda _: answer(200, orjson.dumps(document), "application/json")
            return CliRunner().invoke(app, [*command, server.url])

        yield answered


def test_a_statement_that_adds_up_exits_with_0(invoke: Callable[..., Result]) -> None:
    done = invoke(found(3), "statement", "--admin")
    assert (done.exit_code, done.stdout.splitlines()[0].split(":")[0]) == (0, "All accounted for")


def test_a_difference_exits_with_1_and_names_topic_and_destination(invoke: Callable[..., Result]) -> None:
    done = invoke(found(2, billing="it does not answer"), "statement", "--admin")
    assert done.exit_code == 1
    assert f"DIFFERENCE  {TOPIC}: onramp.events.order has 3 records and 2 outcomes" in done.stdout
    assert "not evaluated: billing: it does not answer" in done.stdout


def test_parts_that_could_not_be_evaluated_exit_with_4_and_are_named(invoke: Callable[..., Result]) -> None:
    done = invoke(found(3, billing="it does not answer", Kafka="no broker"), "statement", "--admin")
    assert done.exit_code == 4
    assert done.stdout.splitlines()[0] == "NOT ALL EVALUATED: no difference, but Kafka, billing"
    assert "not evaluated: Kafka: no broker" in done.stdout
    assert "not evaluated: billing: it does not answer" in done.stdout


def tracers(*results: Outcome) -> dict[str, Any]:
    sent = [
        Tracer(str(n), "kafka", float(n), {HERE: Watch(result, n + 1)}) for n, result in enumerate(results)
    ]
    return dict(msgspec.to_builtins(status.status(sent, {})))


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((Outcome.LANDED, Outcome.WAITING), 0),
        ((Outcome.LOST, Outcome.LANDED), 1),
        ((Outcome.DUPLICATE, Outcome.LANDED), 1),
        ((Outcome.LANDED, Outcome.REFUSED), 1),
        ((Outcome.REFUSED, Outcome.LANDED), 0),
    ],
)
def test_all_tracers_of_the_last_day_count(
    invoke: Callable[..., Result], results: tuple[Outcome, ...], code: int
) -> None:
    done = invoke(tracers(*results), "tracer", "status", "--tracer")
    assert done.exit_code == code
    bad = next((r for r in results if r in {Outcome.LOST, Outcome.DUPLICATE}), None)
    assert (f"NOT LANDED EXACTLY ONCE in the last day: 1 {bad}." in done.stdout) == (bad is not None)


def test_a_day_that_has_not_begun_is_refused() -> None:
    today = datetime.now(UTC).date()
    assert StatementQuery(day=today).period[0]
    with pytest.raises(ValidationError, match="has not begun: the last one is today"):
        StatementQuery(day=today + timedelta(days=2))
