"""The built-in transform of tracers: its output is the event itself, so its row proves that transforms run.

It runs while the registry has a deployed transform, and reads the tracers that the tracer has sent for it.
"""

from typing import Final

from shared import wire
from shared.registry.transforms import Transform, TransformLimits, digest_of_source

NAME: Final = wire.PROBE_EVENT
#: Other tracers, and its own outputs, which are on the topic that it reads, are dropped.
_SOURCE: Final = f'''"""The built-in transform of tracers."""


def transform(event, lookup):
    entrance = str(event["payload"].get("entrance"))
    if not entrance.startswith("{wire.TRANSFORM_ENTRANCE}@") or event["metadata"]["id"].startswith("{NAME}:"):
        return None
    return {{"event_name": event["event_name"], "payload": event["payload"]}}
'''


def tracer_transform() -> Transform:
    """Return the transform; no registry may name the type that it reads and emits."""
    return Transform.model_construct(
        source_type=wire.PROBE_EVENT,
        to=(wire.PROBE_EVENT,),
        start="now",
        lanes=1,
        lookups=(),
        limits=TransformLimits(),
        environment=None,
        source=_SOURCE,
        digest=digest_of_source(_SOURCE),
    )
