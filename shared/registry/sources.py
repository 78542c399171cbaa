"""The `sources` (captured databases) and `models` (table settings) of ``onramp.yaml``.

A source's password is not in the registry: `dsn_env` names the environment variable with its DSN.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from shared.registry.texts import Retention, matching

#: Prefix of the variables in Kafka Connect's environment that a connector may name (stack/connect.py).
ENV_PREFIX: Final = "ONRAMP_SOURCE_"
#: Suffix of a DSN's variable for the password alone, for Kafka Connect, which reads no DSN.
PASSWORD_SUFFIX: Final = "_PASSWORD"  # noqa: S105 - a name
_UNITS: Final = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_MAX_IDENTIFIER_BYTES: Final = 63
_RESERVED_SCHEMAS: Final = frozenset({"onramp", "landing", "information_schema"})


def _identifier(value: str) -> str:
    if not value or "\0" in value or len(value.encode()) > _MAX_IDENTIFIER_BYTES:
        raise ValueError("a name in Postgres has 1 to 63 bytes, and no NUL")
    return value


def _model_name(value: str) -> str:
    if len(value.split(".")) < len(("source", "schema", "table")) or "" in value.split("."):
        raise ValueError("a model is named source.schema.table")
    return value


def _publishable(value: str) -> str:
    if value in _RESERVED_SCHEMAS or value.startswith("pg_"):
        raise ValueError(f"the schema {value} is Onramp's or Postgres' own: publish to another")
    return value


#: Part of the names of the slot, the publication and the topics.
SourceName = Annotated[
    str,
    matching(
        r"(?!.*__)[a-z](?:[a-z0-9_]{0,30}[a-z0-9])?",
        "a source's name is a letter and up to 31 of a-z 0-9 _, and has no _ at its end or next to another",
    ),
]
EnvName = Annotated[
    str,
    matching(
        rf"{ENV_PREFIX}(?!.*{PASSWORD_SUFFIX}$)[A-Z0-9_]{{1,64}}",
        f"the variable of a source's DSN is {ENV_PREFIX} and 1 to 64 of A-Z 0-9 _, and does not end with "
        f"{PASSWORD_SUFFIX}",
    ),
]
Identifier = Annotated[str, AfterValidator(_identifier)]
PublishedSchema = Annotated[str, AfterValidator(_identifier), AfterValidator(_publishable)]
TablePattern = Annotated[
    str,
    matching(
        r"[^.\0\[\]]+\.[^\0\[\]]+",
        "an excluded table is schema.table, where * and ? match any characters: app.tmp_*",
    ),
]
Size = Annotated[
    str, matching(r"[1-9]\d{0,6}(?:kB|MB|GB|TB)", "a size is a number and kB, MB, GB or TB: 512MB, 4GB")
]
ModelName = Annotated[str, AfterValidator(_model_name)]


def bytes_of(size: str) -> int:
    """Return the bytes of a size such as `512MB` in Postgres' units (powers of 1024)."""
    return int(size[:-2]) * _UNITS[size[-2:]]


def pattern_of(full_name: str) -> str:
    """Return the pattern that excludes the table of a full name."""
    return "".join("?" if c in "[]*" else c for c in full_name)


class Source(BaseModel):
    """A captured database, and which of its tables are published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dsn_env: EnvName = Field(description="The environment variable with the source's DSN.")
    schemas: tuple[Identifier, ...] = Field(
        min_length=1, description="Schemas whose tables are captured, including later ones."
    )
    exclude: tuple[TablePattern, ...] = Field((), description="Patterns of excluded tables (schema.table).")
    publish: PublishedSchema = Field(description="The schema to publish the tables in.")
    database: str | None = Field(
        None,
        min_length=1,
        description="The writer's database to publish to; by default the default database.",
    )
    wal_alarm: Size = "1GB"
    wal_budget: Size = Field("4GB", description="Maximum WAL retained by the slot before it is dropped.")
    keep_landing: Retention = "3d"

    @model_validator(mode="after")
    def _warns_before_it_cuts(self) -> Self:
        if self.wal_alarm_bytes >= self.wal_budget_bytes:
            raise ValueError("wal_alarm is less than wal_budget: at the budget the slot is dropped")
        if len(set(self.schemas)) < len(self.schemas):
            raise ValueError("a schema comes twice in schemas")
        return self

    @property
    def wal_alarm_bytes(self) -> int:
        """Return the WAL in bytes above which an alert is raised."""
        return bytes_of(self.wal_alarm)

    @property
    def wal_budget_bytes(self) -> int:
        """Return the WAL in bytes at which the slot is dropped."""
        return bytes_of(self.wal_budget)

    def takes(self, schema: str, table: str) -> bool:
        """Return whether a table is captured."""
        named = f"{schema}.{table}"
        return schema in self.schemas and not any(fnmatchcase(named, each) for each in self.exclude)


class Model(BaseModel):
    """The cleaning of a table before it is published; without one it is copied 1:1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: str | None = Field(
        None, min_length=1, description="Condition in SQL over `before` and `after`, the change's jsonb."
    )
    columns: Mapping[Identifier, None] = Field(
        default_factory=dict, description="Columns by name; `null` excludes a column."
    )


def require_no_clash(sources: Mapping[str, Source], models: Mapping[str, Model]) -> None:
    """Raise `ValueError` with all conflicts between entries that are valid by themselves."""
    if found := list(_clashes(sources, models)):
        raise ValueError("; ".join(found))


def _clashes(sources: Mapping[str, Source], models: Mapping[str, Model]) -> Iterator[str]:
    published = defaultdict[tuple[str | None, str], list[str]](list)
    for name, source in sorted(sources.items()):
        published[source.database, source.publish].append(name)
    for (_, schema), names in published.items():
        if len(names) > 1:
            yield (
                f"sources {' and '.join(names)} publish to the same schema {schema}: tables of the same name "
                "would overwrite each other; give each its own"
            )
    for model in sorted(models):
        name, schema, table = model.split(".", 2)
        if name not in sources:
            yield f"models.{model}: there is no source {name}"
        elif not sources[name].takes(schema, table):
            yield f"models.{model}: the source {name} does not take {schema}.{table} (schemas, exclude)"
