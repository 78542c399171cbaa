"""The entries of the registry (event types, keys, operators, grants): immutable, and valid as a whole.

People write it in ``onramp.yaml``, so an unknown field is rejected by name rather than
ignored: a misspelt `expires` must not result in a key that never expires.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from shared import wire
from shared.contracts.compatibility import Mode
from shared.contracts.created_tables import with_limits
from shared.contracts.json_values import fault_of
from shared.lake.lake_tables import TABLE_NAME
from shared.landing_columns import is_closed
from shared.registry.lake import LakeOptions
from shared.registry.sources import Model, ModelName, Source, SourceName
from shared.registry.texts import Retention, matching
from shared.registry.transforms import Lookup, LookupName, Transform, TransformName


def _of_events(topic: str) -> str:
    """Refuse a topic that is not for events: the gateway would write to it, and the writer read it."""
    if topic in {".", ".."} or topic.startswith(wire.OWN_TOPIC_PREFIXES):
        raise ValueError(f"the topic {topic} is Kafka's or Onramp's own: name another")
    return topic


Topic = Annotated[
    str,
    matching(r"[A-Za-z0-9._-]{1,249}", "a topic has 1 to 249 of A-Z a-z 0-9 . _ -"),
    AfterValidator(_of_events),
]
Pointer = Annotated[str, matching(r"(?:/(?:[^~/]|~[01])*)+", "a JSON Pointer starts with / (RFC 6901)")]
KeyId = Annotated[str, matching(r"[a-z0-9][a-z0-9-]{0,31}", "a key's id has 1 to 32 of a-z 0-9 -")]
EventName = Annotated[str, matching(wire.EVENT_NAME.pattern, "an event name is [a-z][a-z0-9_]{0,62}")]
#: Restricted characters: a database evaluates the pattern as well, with the same meaning.
EventPattern = Annotated[
    str, matching(r"[a-z0-9_*?]{1,63}", "a pattern of event names has 1 to 63 of a-z 0-9 _ * ?")
]
#: Each includes the rights of those before it: view, act, read values and the audit log.
Role = Literal["viewer", "operator", "admin"]
#: Sections whose entries have names.
_NAMED_SECTIONS: Final = ("event_types", "keys", "operators", "sources", "models", "transforms", "lookups")
#: Maximum integer: the JSON writers used here support no larger ones.
_MAX: Final = 2**63 - 1
Sha256 = Annotated[str, matching(r"[0-9a-f]{64}", "a SHA-256 is 64 hexadecimal digits")]


def _plain_json(schema: dict[str, Any]) -> dict[str, Any]:
    """Check the size before any code walks through it: aliases of YAML may unfold without end."""
    if reason := fault_of(schema):
        raise ValueError(f"invalid schema: {reason}")
    return schema


JsonSchema = Annotated[dict[str, Any], AfterValidator(_plain_json)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Entry(_Frozen):
    """An entry with a cached fingerprint: the next snapshot reuses most of thousands of entries."""

    #: Not part of the content: a copy has none yet, and entries with equal content are equal.
    __slots__ = ("_fingerprint",)

    def fingerprint(self) -> bytes:
        """Return the SHA-256 of the content."""
        try:
            known: bytes = object.__getattribute__(self, "_fingerprint")
        except AttributeError:
            known = _sha256(self.model_dump(mode="json", by_alias=True))
            object.__setattr__(self, "_fingerprint", known)
        return known


def _sha256(written: object) -> bytes:
    return hashlib.sha256(orjson.dumps(written, option=orjson.OPT_SORT_KEYS)).digest()


class Destination(_Frozen):
    """A destination of events: a table of a database, or a table of the lake."""

    type: Literal["postgres", "lake"] = "postgres"
    vanity: str | None = None
    database: str | None = None
    db_schema: str | None = Field(None, alias="schema")
    table: str | None = None
    create: bool = Field(
        False, description="Whether `onramp apply` creates the table, and adds columns to it."
    )
    unkeyed: bool = Field(
        False, description="Whether the table intentionally has no key that identifies repeats."
    )

    @property
    def is_lake(self) -> bool:
        """Return whether this is a table of the lake."""
        return self.type == "lake"

    @model_validator(mode="after")
    def _can_be_written_to(self) -> Self:
        if self.is_lake:
            return self._checked_lake_table()
        if self.table and not self.db_schema:
            raise ValueError("a table needs its schema")
        if self.db_schema and is_closed(self.db_schema):
            raise ValueError(f"the schema {self.db_schema:.70} is Postgres' or Onramp's own: name another")
        return self

    def _checked_lake_table(self) -> Self:
        if self.model_fields_set - {"type", "table"}:
            raise ValueError("a destination in the lake has a type and a table alone")
        if self.table is not None and not TABLE_NAME.fullmatch(self.table):
            raise ValueError(f"a table of the lake is {TABLE_NAME.pattern}")
        return self

    @model_validator(mode="after")
    def _creates_what_is_named(self) -> Self:
        if self.is_lake:
            return self
        if self.create and not (self.db_schema and self.table):
            raise ValueError("to create a table its schema and table are named")
        if self.unkeyed and (self.create or not self.table):
            raise ValueError("unkeyed is said of an existing table: what Onramp makes has a key")
        return self


class EventContract(_Frozen):
    """The rule for an event's fields without a column in its tables."""

    unknown_fields: Literal["freeze", "discard"] = "freeze"


class AlertLimits(_Frozen):
    """The alert limits of an event type, for the rules in deploy/prometheus."""

    min_per_minute: float | None = Field(None, gt=0, allow_inf_nan=False)
    max_per_minute: float | None = Field(None, gt=0, allow_inf_nan=False)
    parked_share: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        low, high = self.min_per_minute, self.max_per_minute
        if low is not None and high is not None and low >= high:
            raise ValueError("min_per_minute is less than max_per_minute")
        return self


class EventType(_Entry):
    """The registration of an event name."""

    owner: str = ""
    description: str = ""
    topic: Topic | None = None
    key: Pointer | None = Field(None, description="Pointer into the payload; without it the event's id.")
    json_schema: JsonSchema | None = Field(None, alias="schema")
    compatibility: Mode = "backward"
    personal: tuple[Pointer, ...] = Field((), description="Pointers into the payload: masked in views.")
    retention: Retention | None = None
    max_bytes: int | None = Field(None, ge=1, le=_MAX)
    partitions: int | None = Field(None, ge=1, le=1000)
    contract: EventContract = EventContract()
    destinations: tuple[Destination, ...] = ()
    lake: LakeOptions = LakeOptions()
    alerts: AlertLimits = AlertLimits()

    @model_validator(mode="after")
    def _has_one_table_in_the_lake(self) -> Self:
        if sum(each.is_lake for each in self.destinations) > 1:
            raise ValueError("an event type has at most one destination in the lake")
        return self

    @property
    def database_destinations(self) -> tuple[Destination, ...]:
        """Return the destinations in databases; without any, events go to the landing table."""
        return tuple(each for each in self.destinations if not each.is_lake)

    @property
    def checked_schema(self) -> Mapping[str, Any] | None:
        """Return the schema for checks, which is tighter than `json_schema` if `apply` creates the table."""
        is_created = any(destination.create for destination in self.destinations)
        return with_limits(self.json_schema) if self.json_schema and is_created else self.json_schema


class Grant(_Frozen):
    """The tables that packets of a topic may address; patterns with * and ?.

    The topic is named, or is an event type's topic: a record has no other
    trustworthy sign of its sender.
    """

    topic: str | None = None
    event_type: EventName | None = None
    database: str = "*"
    db_schema: str = Field("*", alias="schema")
    table: str = "*"

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.topic is None) == (self.event_type is None):
            raise ValueError("a grant is for a topic or for an event_type: one of the two")
        return self


class Contract(_Frozen):
    """The rule for fields without a column in tables that match the patterns."""

    unknown_fields: Literal["freeze", "discard"]
    database: str = "*"
    db_schema: str = Field("*", alias="schema")
    table: str = "*"


class KeyHash(_Frozen):
    """A secret of a key. A key with two secrets is being rotated."""

    sha256: Sha256
    expires: AwareDatetime | None = None


class _Holder(_Entry):
    """The holder of a key, which is stored as hashes and may expire."""

    hashes: tuple[KeyHash, ...] = Field(min_length=1)
    expires: AwareDatetime | None = None

    def last_moment(self) -> datetime | None:
        """Return when its last secret expires; None if one never expires."""
        ends = [each.expires for each in self.hashes]
        last = None if None in ends else max(end for end in ends if end is not None)
        return min((end for end in (self.expires, last) if end is not None), default=None)

    def live_hashes(self, now: datetime) -> list[bytes]:
        """Return the SHA-256 digests of secrets that are valid at `now`."""
        if self.expires is not None and self.expires <= now:
            return []
        return [
            bytes.fromhex(each.sha256) for each in self.hashes if each.expires is None or each.expires > now
        ]


class ApiKey(_Holder):
    """A sender's key, its grants and quotas."""

    events: tuple[str, ...] = Field(("*",), description="Event names or patterns with * and ?.")
    destinations: tuple[str, ...] = Field((), description="Patterns of database.schema.table, for packets.")
    events_per_second: float | None = Field(None, gt=0, allow_inf_nan=False)
    bytes_per_second: float | None = Field(None, gt=0, allow_inf_nan=False)
    max_new_names: int = Field(100, ge=0, le=_MAX, description="Maximum number of unregistered event names.")

    def may_send(self, event_name: str) -> bool:
        """Return whether the key's grant covers the event name."""
        return _covers(self.events, event_name)

    def may_address(self, destination: str) -> bool:
        """Return whether the key's grant covers `database.schema.table`."""
        return _covers(self.destinations, destination)


class Operator(_Holder):
    """An operator of the admin service, with a role."""

    role: Role
    events: tuple[EventPattern, ...] = Field(("*",), min_length=1)


@lru_cache(maxsize=4096)
def _covers(patterns: tuple[str, ...], name: str) -> bool:
    """Return whether a pattern matches; cached, because it is called for every event with few names."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def topic_of(event_name: str, event_types: Mapping[str, EventType]) -> str:
    """Return the topic of events with this name, registered or not."""
    event_type = event_types.get(event_name)
    return (event_type.topic if event_type else None) or wire.topic_of(event_name)


class Snapshot(_Frozen):
    """The whole registry at a point in time."""

    event_types: Mapping[EventName, EventType] = Field(default_factory=dict)
    keys: Mapping[KeyId, ApiKey] = Field(default_factory=dict)
    operators: Mapping[KeyId, Operator] = Field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    contracts: tuple[Contract, ...] = ()
    sources: Mapping[SourceName, Source] = Field(default_factory=dict)
    models: Mapping[ModelName, Model] = Field(default_factory=dict)
    transforms: Mapping[TransformName, Transform] = Field(default_factory=dict)
    lookups: Mapping[LookupName, Lookup] = Field(default_factory=dict)
    unknown_names: Literal["accept", "refuse"] = "accept"
    _digest: str = PrivateAttr("")

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content."""
        return self._digest

    def topic_of(self, event_name: str) -> str:
        """Return the topic of events with this name, registered or not."""
        return topic_of(event_name, self.event_types)

    def personal_of(self, event_name: str | None) -> tuple[str, ...]:
        """Return the pointers to hide in a view of an event with this name.

        For an unknown type, return the personal pointers of all types.
        """
        if event_name is not None and event_name in self.event_types:
            return self.event_types[event_name].personal
        return tuple(sorted({pointer for each in self.event_types.values() for pointer in each.personal}))

    @model_validator(mode="after")
    def _sealed(self) -> Self:
        for name in self.event_types:
            if wire.is_reserved(name):
                raise ValueError(f"the event name {name} is Onramp's own")
        self._require_distinct_lake_tables()
        self._digest = self._content().hex()
        for section in _NAMED_SECTIONS:
            object.__setattr__(self, section, MappingProxyType(dict(getattr(self, section))))
        return self

    def lake_table_of(self, event_name: str) -> str | None:
        """Return the table of the lake for events with this name; None without a destination there."""
        event_type = self.event_types.get(event_name)
        named = next((each for each in event_type.destinations if each.is_lake), None) if event_type else None
        return None if named is None else named.table or event_name

    def lake_tables(self, *, is_all: bool) -> dict[str, str]:
        """Return the event type of each table of the lake, in order of the types.

        With `is_all` a type without a destination in the lake has the table with its name, unless another
        type has that one.
        """
        named = {name: self.lake_table_of(name) for name in sorted(self.event_types)}
        taken = {table for table in named.values() if table is not None}
        tables = {table or name: name for name, table in named.items() if table or name not in taken}
        return tables if is_all else {table: name for table, name in tables.items() if named[name]}

    def _require_distinct_lake_tables(self) -> None:
        holders: dict[str, str] = {}
        for name in self.event_types:
            table = self.lake_table_of(name)
            if table is not None and (other := holders.setdefault(table, name)) != name:
                raise ValueError(f"{other} and {name} have one table in the lake, {table}: name two")

    def _content(self) -> bytes:
        """Return the SHA-256 of all entries, computed in pieces because each piece blocks other threads."""
        sections = ("event_types", "keys", "operators")
        digest = hashlib.sha256(_sha256(self.model_dump(mode="json", by_alias=True, exclude=set(sections))))
        for section in sections:
            for name, entry in sorted(getattr(self, section).items()):
                digest.update(f"{section}.{name} ".encode() + entry.fingerprint())
        return digest.digest()


#: An empty registry: every event name is accepted and lands in the default table.
EMPTY: Final = Snapshot()
