"""The deployed code of a transform, as a task receives it."""

from typing import NamedTuple

from shared.registry.transforms import Transform, TransformLimits


class TransformCode(NamedTuple):
    """A version of a transform's function, which is identified by its digest."""

    name: str
    source: str
    digest: str
    limits: TransformLimits
    #: Path of the Python executable with the packages of the environment; empty: Onramp's own.
    environment: str = ""


def code_of(name: str, transform: Transform, environment: str = "") -> TransformCode | None:
    """Return the code of a transform; None before its first deploy."""
    if transform.source is None or transform.digest is None:
        return None
    return TransformCode(name, transform.source, transform.digest, transform.limits, environment)
