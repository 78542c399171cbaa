"""The built-in transform of tracers: it runs with a deployed transform, and emits its own tracers once."""

from typing import Any

import orjson
import pytest

from services.tracer.entrances import row_id
from services.transform.driver.deployed_transforms import deployed_of
from services.transform.driver.tracer_transform import tracer_transform
from services.transform.settings import TransformSettings
from shared import wire
from shared.registry.entries import Snapshot
from shared.registry.transforms import digest_of_source
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import eventually, make_topics, produce, records
from tests.integration.transform.test_driver import driver

PROBES = wire.topic_of(wire.PROBE_EVENT)
_function: dict[str, Any] = {}
exec(str(tracer_transform().source), _function)  # noqa: S102 - our own source


def function(event: Any) -> Any:
    return _function["transform"](event, None)


def tracer(tracer_id: str, entrance: str) -> bytes:
    metadata = {"id": tracer_id, "timestamp": "2026-01-01T00:00:00Z", "version": "1"}
    return orjson.dumps(
        {"metadata": metadata, "event_name": wire.PROBE_EVENT, "payload": {"entrance": entrance}}
    )


def transforms(*, has_source: bool, tracers: bool) -> set[str]:
    entry = {"from": "read", "to": ["made"]}
    entry |= {"source": "a", "digest": digest_of_source("a")} if has_source else {}
    snapshot = Snapshot.model_validate({"event_types": {"read": {}, "made": {}}, "transforms": {"t": entry}})
    return {*deployed_of(snapshot, TransformSettings(tracers=tracers))}


def test_it_runs_while_a_transform_is_deployed() -> None:
    assert transforms(has_source=True, tracers=True) == {"t", wire.PROBE_EVENT}
    assert transforms(has_source=True, tracers=False) == {"t"}
    assert transforms(has_source=False, tracers=True) == set()


@pytest.mark.parametrize("entrance", ["single@gateway:8080", "transform", "", 7])
def test_other_tracers_are_dropped(entrance: Any) -> None:
    assert function(orjson.loads(tracer("a", entrance))) is None


def test_a_tracer_is_emitted_once_under_the_id_that_the_tracer_looks_for(kafka: HasBootstrap) -> None:
    make_topics(kafka.bootstrap, PROBES, partitions=1)
    scene = TransformScene.make(kafka.bootstrap)
    sent = f"tracer-{scene.name}"

    def ids() -> list[str]:
        found = [orjson.loads(each.value or b"{}") for each in records(kafka.bootstrap, PROBES)]
        return [each["metadata"]["id"] for each in found if sent in each.get("metadata", {}).get("id", "")]

    with driver(scene, function, tracers=True) as running:

        def entry() -> dict[str, Any]:
            document = orjson.loads(running.process.status.document())
            return dict(document["transforms"].get(wire.PROBE_EVENT, {}))

        eventually(lambda: entry().get("lag"))
        produce(kafka.bootstrap, PROBES, [tracer(sent, "transform@gateway:8080"), tracer("other", "kafka")])
        output = row_id("transform@gateway:8080", sent)
        eventually(lambda: output in ids())
        # Its own output is read too, and dropped.
        eventually(lambda: entry()["totals"].get("dropped", 0) >= 2 or len(ids()) > 2)
        assert ids() == [sent, output]
