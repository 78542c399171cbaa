"""The journey of a source event names its outputs, and that of an output its source event."""

import asyncio
from collections.abc import Iterator

import pytest

from services.ops.journey.finder import Finder, topics_of
from services.ops.journey.timeline import Journey, Kind, Step
from shared.kafka_security import Brokers
from shared.registry.memory import MemoryRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database, Templates, created
from tests.fixtures.transforms import DIGEST, TransformScene
from tests.fixtures.ui import serving
from tests.fixtures.writer import execute
from tests.integration.transform.test_replays import desk_of

KINDS = {Kind.OUTPUT, Kind.EMITTED, Kind.DROPPED, Kind.NOT_TRANSFORMED}
SHORT = DIGEST[:12]
LANDED = """
    CREATE SCHEMA IF NOT EXISTS events;
    CREATE TABLE events.made (_id text PRIMARY KEY, _topic text, _partition int, _offset bigint,
                              _event_name text, _received_at timestamptz);
    INSERT INTO events.made VALUES ('{id}', '{topic}', 0, 7, 'made', now())
"""


@pytest.fixture(scope="module")
def scene(kafka: HasBootstrap) -> TransformScene:
    """Events that are emitted, dropped and parked, behind one from before the transform."""
    scene = TransformScene.make(kafka.bootstrap, partitions=1)
    scene.send([1])
    scene.run(start="now")
    scene.send([2, 0, None], first=1)
    scene.run()
    return scene


@pytest.fixture
def database(templates: Templates) -> Iterator[Database]:
    with created(templates.server, templates.writer) as database:
        yield database


def _finder(scene: TransformScene, dsn: str, control: str = "") -> Finder:
    snapshot = MemoryRegistry(scene.document()).snapshot
    return Finder(
        Brokers(scene.bootstrap),
        {"onramp": dsn},
        control,
        topics_of(snapshot),
        lambda: snapshot().event_types,
        lambda: snapshot().transforms,
    )


def _find(finder: Finder, text: str, *names: str) -> Journey:
    sees = (lambda name: name in names) if names else None
    return asyncio.run(finder.find(text, sees=sees))


def _step(journey: Journey) -> Step:
    (step,) = (step for step in journey.steps if step.kind in KINDS)
    return step


def _receipts(scene: TransformScene) -> list[str]:
    return [f"{scene.target}/{each.partition}/{each.offset}" for each in scene.outputs()]


def test_a_source_event_names_its_outputs_with_ids_and_receipts(
    scene: TransformScene, database: Database
) -> None:
    first, second = _receipts(scene)
    journey = _find(_finder(scene, database.dsn), f"{scene.source}/0/1")

    name = scene.name
    said = f"emitted 2 outputs by {name}@{SHORT}: {name}:0-1 ({first}), {name}:0-1:2 ({second})"
    assert _step(journey).text == said
    assert said in journey.sentence


def test_outputs_are_found_by_their_ids_in_tables(scene: TransformScene, database: Database) -> None:
    execute(database.dsn, LANDED.format(id=f"{scene.name}:0-1", topic=scene.target))

    step = _step(_find(_finder(scene, database.dsn), "0-1", "source", "made"))

    assert step.facts["events"] == [{"id": f"{scene.name}:0-1", "receipt": f"{scene.target}/0/7"}]


@pytest.mark.parametrize(
    ("offset", "kind", "text"),
    [
        (0, Kind.NOT_TRANSFORMED, "is from before transform {}, which began at offset 1"),
        (2, Kind.DROPPED, "was dropped by transform {}: no output of it is on Kafka or in a table"),
        (4, Kind.NOT_TRANSFORMED, "is not processed by transform {} yet"),
    ],
)
def test_an_event_without_outputs_says_why(
    scene: TransformScene, database: Database, offset: int, kind: Kind, text: str
) -> None:
    if kind is Kind.NOT_TRANSFORMED and offset:
        scene.send([1], first=offset)

    step = _step(_find(_finder(scene, database.dsn), f"{scene.source}/0/{offset}"))

    assert (step.kind, step.text) == (kind, text.format(scene.name))


def test_an_output_names_its_source_event(scene: TransformScene, database: Database) -> None:
    receipt, _ = _receipts(scene)

    journey = _find(_finder(scene, database.dsn), receipt)

    step = _step(journey)
    assert step.text == f"is an output of {scene.name}@{SHORT} for the event {scene.source}/0/1"
    assert step.facts["events"] == [{"id": None, "receipt": f"{scene.source}/0/1"}]


def test_links_to_events_of_other_types_are_hidden_from_users_without_access(
    scene: TransformScene, database: Database
) -> None:
    receipt, _ = _receipts(scene)
    for subject, own in ((f"{scene.source}/0/1", "source"), (receipt, "made")):
        journey = _find(_finder(scene, database.dsn), subject, own)

        assert journey.is_known
        assert not [step for step in journey.steps if step.kind in KINDS]
        assert scene.target not in str(journey.as_dict()["steps"]) or own == "made"


def test_a_parked_event_is_named_as_parked_by_its_transform(
    scene: TransformScene, database: Database, templates: Templates
) -> None:
    with desk_of(scene, templates) as desk:
        for is_stored in (False, True):
            if is_stored:
                desk.keep()
            journey = _find(_finder(scene, database.dsn, desk.dsn), f"{scene.source}/0/3")

            assert f"is parked for transform:{scene.name}" in journey.sentence
            assert not [step for step in journey.steps if step.kind in KINDS]


def test_the_page_links_source_and_output(
    scene: TransformScene, database: Database, templates: Templates
) -> None:
    receipt, _ = _receipts(scene)
    with created(templates.server, templates.control) as control:
        finder = _finder(scene, database.dsn, control.dsn)
        with serving(control.dsn, finder=finder, known=scene.document()) as service:
            browser = service.browser().log_in("vera")
            source = browser.get(f"/search?q={scene.source}/0/1").text
            output = browser.get(f"/search?q={receipt}").text

    assert f'href="/ui/search?q={_quoted(receipt)}">{scene.name}:0-1</a>' in source
    assert f'href="/ui/search?q={_quoted(f"{scene.source}/0/1")}"' in output


def _quoted(receipt: str) -> str:
    return receipt.replace("/", "%2F")
