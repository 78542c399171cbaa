"""A lane run: outputs, parked events, totals and offsets of one transaction, compared exactly."""

import orjson
import pytest

from services.transform.function.results import Failure
from services.transform.lane import task
from shared import wire
from shared.errors import TRANSFORM_BAD_OUTPUT, TRANSFORM_CRASHED, TRANSFORM_FAILED
from shared.transform_ids import output_id
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transforms import DIGEST, TransformScene
from tests.fixtures.writer import event, produce


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


def test_each_event_is_emitted_dropped_or_parked(scene: TransformScene) -> None:
    values = scene.send([1, 0, None, 3])
    scene.send([2], partition=1)
    produce(scene.bootstrap, scene.source, [event("x", "other"), b"no envelope"])
    produce(scene.bootstrap, scene.source, [event("y", "source")], headers=[])

    report = scene.run()

    assert (report.fault, report.events) == (None, 5)
    made = {orjson.loads(each.value or b"")["metadata"]["id"] for each in scene.outputs()}
    assert made == {f"{scene.name}:{each}" for each in ("0-0", "0-3", "0-3:2", "0-3:3", "1-0", "1-0:2")}
    assert len(scene.outputs()) == 6
    assert scene.counts(0) == {"filtered": 3, "dropped": 1, "parked": 1, "emitted": 2, "outputs": 4}
    assert scene.counts(1) == {"emitted": 1, "outputs": 2}
    assert scene.offsets() == {0: 7, 1: 1}
    assert {n: scene.totals()[scene.source, n]["next"] for n in (0, 1)} == scene.offsets()
    (parked,) = scene.parked()
    assert parked.value == values[2]


def test_an_output_has_the_sources_metadata_and_headers(scene: TransformScene) -> None:
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_RECEIVED_AT, b"2026-11-21T09:00:00.000001+00:00"),
    ]
    produce(scene.bootstrap, scene.source, [event("a", "source", n=1, outputs=1)], headers=headers)

    scene.run()

    (output,) = scene.outputs()
    assert orjson.loads(output.value or b"") == {
        "metadata": {"id": f"{scene.name}:a", "timestamp": "2026-11-21T08:00:00+00:00", "version": "1"},
        "event_name": "made",
        "payload": {"n": 1, "k": 0},
    }
    assert output.key == f"{scene.name}:a".encode()
    assert output.headers == {
        wire.HEADER_CONTEXT: wire.CONTEXT_BYTES,
        wire.HEADER_RECEIVED_AT: b"2026-11-21T09:00:00.000001+00:00",
        wire.HEADER_SOURCE: f"{scene.source}/0/0".encode(),
        wire.HEADER_TRANSFORM: f"{scene.name}@{DIGEST}".encode(),
    }


def test_a_parked_event_has_its_reason_and_the_traceback_apart(scene: TransformScene) -> None:
    def fails(_: object) -> object:
        raise KeyError("secret")

    scene.send([1])

    scene.run(fails)

    (parked,) = scene.parked()
    reason = parked.error
    assert parked.key == f"{scene.source}/0/0/transform:{scene.name}".encode()
    assert reason["code"] == TRANSFORM_FAILED.code
    assert reason["detail"].startswith("KeyError in fails, line ")
    assert (reason["topic"], reason["partition"], reason["offset"]) == (scene.source, 0, 0)
    assert (reason["id"], reason["event_name"]) == ("0-0", "source")
    assert "secret" not in parked.headers["onramp-error"].decode()
    assert "secret" in parked.headers["onramp-traceback"].decode()


def test_a_second_run_continues_where_the_first_ended(scene: TransformScene) -> None:
    scene.send([1, 0])
    scene.run()
    scene.send([None, 1], first=2)

    scene.run()

    assert len(scene.outputs()) == 2
    assert scene.counts(0) == {"dropped": 1, "parked": 1, "emitted": 2, "outputs": 2}
    assert scene.offsets()[0] == 4


@pytest.mark.parametrize(
    ("payload", "detail"),
    [
        ({"n": "text"}, "output 1 (made): schema_mismatch"),
        ({"n": 1}, "output 1 (made): key_missing"),
        ({"n": 1, "key": "x" * 2000}, "output 1 (made): key_missing"),
        ({"n": 1, "key": "x", "big": "x" * 900_000}, "output 1 (made): event_too_large"),
    ],
)
def test_an_output_that_the_gateway_would_reject_parks_the_event(
    kafka: HasBootstrap, payload: dict[str, object], detail: str
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    scene = TransformScene.make(kafka.bootstrap, key="/key", schema=schema)
    scene.send([1])

    good = {"event_name": "made", "payload": {"n": 1, "key": "k"}}
    scene.run(lambda _: [good, {"event_name": "made", "payload": payload}])

    (parked,) = scene.parked()
    assert parked.error["code"] == TRANSFORM_BAD_OUTPUT.code
    assert parked.error["detail"].startswith(detail.replace("output 1", "output 2"))
    assert scene.outputs() == []


def test_an_output_of_another_name_parks_the_event(scene: TransformScene) -> None:
    scene.send([1])

    scene.run(lambda _: {"event_name": "unlisted", "payload": {}})

    (parked,) = scene.parked()
    assert parked.error["code"] == TRANSFORM_BAD_OUTPUT.code


def test_a_batch_is_cut_after_five_deaths_and_the_next_run_continues(scene: TransformScene) -> None:
    def dies(_: object) -> object:
        return Failure(error=TRANSFORM_CRASHED)

    scene.send([1] * 3)
    produce(scene.bootstrap, scene.source, [event("x", "other")])
    scene.send([1] * 4, first=3)

    assert scene.run(dies).events == 5
    assert scene.counts(0) == {"filtered": 1, "parked": 5, "deaths": 5}
    assert scene.offsets()[0] == 6
    scene.run()

    assert scene.counts(0) == {"filtered": 1, "parked": 5, "deaths": 5, "emitted": 2, "outputs": 2}


def test_a_batch_is_cut_after_its_time_and_the_next_run_continues(
    scene: TransformScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "BATCH_SECONDS", 0.0)
    scene.send([1, 0])
    produce(scene.bootstrap, scene.source, [event("x", "other")])
    scene.send([None, 2], first=2)

    assert [scene.run().events for _ in range(4)] == [1] * 4

    assert scene.counts(0) == {"filtered": 1, "dropped": 1, "parked": 1, "emitted": 2, "outputs": 3}
    assert (scene.offsets()[0], len(scene.outputs())) == (5, 3)


def test_an_id_is_cut_and_ends_with_its_digest() -> None:
    long = output_id("name", "i" * 120, 12), output_id("name", "i" * 120 + "j", 12)

    assert [len(each) for each in long] == [128, 128]
    assert long[0][:63] == long[1][:63]
    assert long[0] != long[1]
    assert output_id("name", "id", 1) == b"name:id"
    assert output_id("name", "id", 2) == b"name:id:2"
