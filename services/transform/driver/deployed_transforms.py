"""The deployed transforms of a registry snapshot, with everything that an order needs of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.transform.driver import tracer_transform
from services.transform.function.transform_code import TransformCode, code_of
from services.transform.lane.order import LaneOrder
from services.transform.settings import TransformSettings
from shared.kafka_security import Brokers
from shared.registry.entries import EventType, Snapshot, topic_of
from shared.registry.transforms import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """A transform with a function."""

    name: str
    transform: Transform
    code: TransformCode
    source_topic: str
    #: The registered types of the outputs.
    event_types: Mapping[str, EventType]
    #: Seconds between two snapshots of the lookup that changes most often; None without lookups.
    refresh_seconds: float | None = None
    #: Reason why no run may start, besides its state.
    obstacle: str = ""

    @property
    def lanes(self) -> int:
        """Return the number of lanes."""
        return self.transform.lanes

    def order(
        self,
        lane: int,
        epoch: int,
        brokers: Brokers,
        settings: TransformSettings,
        *,
        seconds: float,
        accept: bool,
    ) -> LaneOrder:
        """Return the order of a run of `lane`."""
        return LaneOrder(
            name=self.name,
            lane=lane,
            lanes=self.lanes,
            epoch=epoch,
            source_type=self.transform.source_type,
            source_topic=self.source_topic,
            start=self.transform.start,
            digest=self.code.digest,
            event_types=self.event_types,
            outputs=frozenset(self.transform.to),
            brokers=brokers,
            budget_seconds=seconds if self.refresh_seconds is None else min(seconds, self.refresh_seconds),
            max_event_bytes=settings.max_event_bytes,
            accept=accept,
        )

    def output_topics(self) -> dict[str, EventType | None]:
        """Return the topics of the outputs, with the type that decides their settings."""
        return {topic_of(name, self.event_types): self.event_types.get(name) for name in self.transform.to}


def deployed_of(snapshot: Snapshot, settings: TransformSettings) -> dict[str, Deployed]:
    """Return the transforms of `snapshot` that have a function, by name."""
    deployed = {}
    for name, transform in snapshot.transforms.items():
        environment = settings.environments.get(transform.environment or "", "")
        code = code_of(name, transform, environment)
        if code is None:
            continue
        is_unknown = transform.environment is not None and not environment
        types = {each: snapshot.event_types[each] for each in transform.to if each in snapshot.event_types}
        lookups = [snapshot.lookups[each].refresh_seconds for each in transform.lookups]
        deployed[name] = Deployed(
            name=name,
            transform=transform,
            code=code,
            source_topic=snapshot.topic_of(transform.source_type),
            event_types=types,
            refresh_seconds=min(lookups, default=None),
            obstacle=f"environment {transform.environment} is not configured" if is_unknown else "",
        )
    if deployed and settings.tracers and tracer_transform.NAME not in deployed:
        deployed[tracer_transform.NAME] = _of_tracers(snapshot)
    return deployed


def _of_tracers(snapshot: Snapshot) -> Deployed:
    """Return the built-in transform of tracers."""
    name, transform = tracer_transform.NAME, tracer_transform.tracer_transform()
    code = code_of(name, transform)
    assert code is not None  # noqa: S101 - it has a source
    types = {each: snapshot.event_types[each] for each in transform.to if each in snapshot.event_types}
    topic = snapshot.topic_of(transform.source_type)
    return Deployed(name=name, transform=transform, code=code, source_topic=topic, event_types=types)
