"""The `transforms` (functions on events) and `lookups` (tables that they read) of ``onramp.yaml``.

People write where a transform reads and writes; a deploy adds the function's source, so
that the registry's log is the log of deploys.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from shared import wire
from shared.registry.sources import Identifier
from shared.registry.texts import matching

MAX_SOURCE_BYTES: Final = 64 << 10
MAX_LANES: Final = 16
#: Fields that a deploy writes, and that a file of people leaves as they are.
DEPLOYED_FIELDS: Final = ("source", "digest")


def _readable_name(value: str) -> str:
    if wire.is_reserved(value) or value == wire.PROBE_EVENT:
        raise ValueError(f"the event name {value} is Onramp's own")
    return value


def _bounded_source(value: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("the source is not text in UTF-8") from None
    if size > MAX_SOURCE_BYTES:
        raise ValueError(f"the source has {size:,} bytes; the maximum is {MAX_SOURCE_BYTES:,}")
    return value


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise ValueError("a name comes twice")
    return values


TransformName = Annotated[
    str, matching(r"[a-z][a-z0-9_]{0,62}", "a transform's name is a letter and up to 62 of a-z 0-9 _")
]
LookupName = Annotated[
    str, matching(r"[a-z][a-z0-9_]{0,62}", "a lookup's name is a letter and up to 62 of a-z 0-9 _")
]
EnvironmentName = Annotated[
    str, matching(r"[a-z][a-z0-9_-]{0,31}", "an environment's name is a letter and up to 31 of a-z 0-9 _ -")
]
TransformedName = Annotated[
    str,
    matching(wire.EVENT_NAME.pattern, "an event name is [a-z][a-z0-9_]{0,62}"),
    AfterValidator(_readable_name),
]
TableName = Annotated[
    str, matching(r"[^.\0]{1,63}\.[^.\0]{1,63}", "a lookup's table is schema.table: public.airlines")
]
FunctionSource = Annotated[str, AfterValidator(_bounded_source)]
SourceDigest = Annotated[str, matching(r"[0-9a-f]{64}", "a SHA-256 is 64 hexadecimal digits")]


class TransformLimits(BaseModel):
    """Limits of one call of the function."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu_ms: int = Field(1000, ge=10, le=60_000, description="Maximum milliseconds of CPU time for an event.")
    memory_mb: int = Field(512, ge=64, le=8192, description="Maximum address space of the process, in MiB.")
    outputs: int = Field(100, ge=1, le=1000, description="Maximum outputs of an event.")


class Transform(BaseModel):
    """A function that makes events of other types from each event of a type."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_type: TransformedName = Field(alias="from", description="The event type that is read.")
    to: Annotated[tuple[TransformedName, ...], AfterValidator(_distinct)] = Field(
        min_length=1, max_length=32, description="Event types that the function may emit."
    )
    start: Literal["now", "earliest"] = Field("now", description="Where the first deploy starts to read.")
    lanes: int = Field(1, ge=1, le=MAX_LANES, description="Maximum tasks at a time.")
    lookups: Annotated[tuple[LookupName, ...], AfterValidator(_distinct)] = Field(
        (), max_length=16, description="Lookups that the function reads."
    )
    limits: TransformLimits = TransformLimits()
    environment: EnvironmentName | None = Field(
        None, description="Environment with packages, named in the settings of the service."
    )
    source: FunctionSource | None = Field(None, description="The function's source, written by a deploy.")
    digest: SourceDigest | None = Field(None, description="SHA-256 of the source, written by a deploy.")

    @model_validator(mode="after")
    def _names_its_source(self) -> Self:
        expected = None if self.source is None else digest_of_source(self.source)
        if self.digest != expected:
            raise ValueError("digest is the SHA-256 of source: a deploy writes both")
        return self


class Lookup(BaseModel):
    """A table of a database, which functions read by key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str = Field(min_length=1, max_length=63, description="The writer's database with the table.")
    table: TableName
    key: Identifier = Field(description="The column that rows are looked up by.")
    columns: Annotated[tuple[Identifier, ...], AfterValidator(_distinct)] = Field(
        min_length=1, max_length=64, description="Columns that the function gets."
    )
    refresh_seconds: int = Field(
        60, alias="refresh_s", ge=1, le=86_400, description="Seconds between two snapshots."
    )
    max_rows: int = Field(1_000_000, ge=1, le=10_000_000, description="Maximum rows of the table.")


def digest_of_source(source: str) -> str:
    """Return the SHA-256 of a function's source, as hexadecimal digits."""
    return sha256(source.encode()).hexdigest()


def require_fit(
    transforms: Mapping[str, Transform], lookups: Mapping[str, Lookup], event_types: Mapping[str, Any]
) -> None:
    """Raise `ValueError` with all conflicts between entries that are valid by themselves."""
    if found := list(_conflicts(transforms, lookups, event_types)):
        raise ValueError("; ".join(found))


def _conflicts(
    transforms: Mapping[str, Transform], lookups: Mapping[str, Lookup], event_types: Mapping[str, Any]
) -> Iterator[str]:
    for name, transform in sorted(transforms.items()):
        for lookup in transform.lookups:
            if lookup not in lookups:
                yield f"transforms.{name}.lookups: there is no lookup {lookup}"
        for place, event_name in (("from", transform.source_type), *(("to", each) for each in transform.to)):
            if event_name not in event_types:
                yield f"transforms.{name}.{place}: there is no event type {event_name}"
    if cycle := _cycle(transforms):
        yield f"transforms form a cycle, which would never end: {' → '.join(cycle)}"


def _cycle(transforms: Mapping[str, Transform]) -> list[str]:
    """Return event types of which each is made into the next one; the last is the first. Empty: no cycle."""
    edges: dict[str, set[str]] = {}
    for transform in transforms.values():
        edges.setdefault(transform.source_type, set()).update(transform.to)
    finished = set[str]()
    for start in sorted(edges):
        path, stack = [start], [iter(sorted(edges[start]))]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                finished.add(path.pop())
            elif following in path:
                return [*path[path.index(following) :], following]
            elif following not in finished:
                path.append(following)
                stack.append(iter(sorted(edges.get(following, ()))))
    return []
