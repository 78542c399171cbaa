"""Pause, resume and rollback from the pages of transforms, on Kafka, with their entries in the audit log."""

from collections.abc import Iterator

import pytest

from services.ops.transforms.reader import TransformReader
from shared import wire
from shared.registry.transforms import digest_of_source
from shared.settings import KafkaSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import make_topics
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.inside import Inside, inside

OLD, NEW = "first", "second"
KNOWN = {
    "event_types": {"read": {}, "made": {}},
    "transforms": {"pages": {"from": "read", "to": ["made"], "source": OLD, "digest": digest_of_source(OLD)}},
}


@pytest.fixture
def service(own_topics: HasBootstrap, templates: Templates) -> Iterator[Inside]:
    make_topics(own_topics.bootstrap, wire.TRANSFORMERS, partitions=2)
    make_topics(own_topics.bootstrap, wire.TRANSFORMED, partitions=1)
    with (
        database_beside(templates.server, "template0") as dsn,
        inside(dsn, {"onramp": dsn}, own_topics.bootstrap, KNOWN) as found,
    ):
        yield found


def test_a_transform_is_paused_resumed_and_rolled_back(service: Inside, own_topics: HasBootstrap) -> None:
    reader = TransformReader(KafkaSettings(bootstrap=own_topics.bootstrap).brokers)
    service.client.app.state.transforms.read()  # type: ignore[attr-defined]
    otto, ada = service.of("otto").browser(), service.of("ada").browser()
    page = otto.see("/transforms/pages/state/pause")
    assert "It is running, and 0 events wait. Its runs end within a second." in page
    assert "onramp transforms pause pages --reason WHY" in page
    done = otto.send(page, "/transforms/pages/state/pause", reason="the airlines are wrong")
    assert (done.status_code, done.headers["location"]) == (303, "/ui/transforms/pages")
    state = reader.read().states["pages"]
    assert (state.state, state.reason, state.by) == ("paused", "the airlines are wrong", "otto")
    assert "It is paused by otto" in ada.see("/transforms/pages"), "the next page shows the change"

    late = otto.send(page, "/transforms/pages/state/pause", reason="again")
    assert late.status_code == 412
    assert "it is paused by otto at" in late.text

    page = ada.see("/transforms/pages/state/accept")
    assert "onramp transforms resume pages --accept --reason WHY" in page
    ada.send(page, "/transforms/pages/state/accept", reason="they are gone")
    state = reader.read().states["pages"]
    assert (state.state, state.accept) == ("running", True)

    deployed = service.ask(
        "POST",
        "/v1/transforms/pages/deploy",
        params={"reason": "a test"},
        json={"source": NEW},
        headers={"if-match": service.ask("GET", "/v1/registry").headers["etag"]},
    )
    assert deployed.status_code == 200, deployed.text
    page = ada.see("/transforms/pages/rollback", to=digest_of_source(OLD))
    stale = ada.see("/transforms/pages/rollback", to=digest_of_source(OLD))
    ada.send(page, "/transforms/pages/rollback", reason="carriers are missing")
    assert service.get("/v1/transforms/pages")["source"] == OLD
    late = ada.send(stale, "/transforms/pages/rollback", reason="again")
    assert late.status_code == 412
    assert "the last change is by ada" in late.text
    shown = service.of("vera").get("/v1/transforms/pages/versions")["versions"]
    assert [each["difference"] for each in shown] == [
        ["@@ -1 +1 @@", "-second", "+first"],
        ["@@ -1 +1 @@", "-first", "+second"],
        ["@@ -0,0 +1 @@", "+first"],
    ]
    assert [act for _, act, _ in service.acts() if "transform" in act] == [
        "roll back transform",
        "deploy transform",
        "resume transform",
        "pause transform",
    ]
