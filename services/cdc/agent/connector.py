"""The configuration of a source's connector, with the reason for each setting that is not the default."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.cdc.agent import names
from services.cdc.agent.source_state import SourceState, Table
from shared import wire
from shared.kafka_security import Brokers
from shared.postgres.connect import USUAL, session
from shared.registry.sources import PASSWORD_SUFFIX, Source

#: The limit of an event's topic (shared/topics.py) also holds for a row with Debezium's metadata.
MAX_BYTES: Final = 16 << 20
_REQUEST_BYTES: Final = 256 << 10
#: Kafka Connect's objects for a queued row take five times its size. With the default of 32 MB a snapshot
#: filled the heap, and the worker mostly collected garbage. One row must fit.
_BUFFER_BYTES: Final = MAX_BYTES + (1 << 20)
#: The bytes of rows that are read and not yet given to the producer: half of the default, for the same
#: reason.
_QUEUED: Final = 4096
#: The bytes of large rows that the producer may buffer: half of those that may be read ahead.
_QUEUED_BYTES: Final = MAX_BYTES
#: The driver fetches this number of rows at once, whatever their size. The default of 10,240 rows of a
#: megabyte each exhausted the worker's memory.
_FETCHED_ROWS: Final = 32
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_ANY: Final = {"*": ".*", "?": "."}
_HEARTBEAT_MS: Final = 1000
#: With row_security off, a snapshot fails instead of missing rows that a policy hides.  An idle session is
#: not ended by the server.
_SESSION: Final = session((*USUAL, "row_security=off", "idle_session_timeout=0"))
#: The names of libpq's parameters by those of Debezium's driver.
_TLS: Final = {
    "sslmode": "database.sslmode",
    "sslrootcert": "database.sslrootcert",
    "sslcert": "database.sslcert",
    "sslkey": "database.sslkey",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of the topics of changes."""

    replication: int
    min_insync: int
    retention_ms: int

    @property
    def config(self) -> dict[str, str]:
        """Return the settings of such a topic, by Kafka's names."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "retention.bytes": "-1",
            "max.message.bytes": str(MAX_BYTES),
            "min.insync.replicas": str(self.min_insync),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The part of the configuration that all sources share."""

    brokers: Brokers
    topics: TopicSettings
    #: The folder of password files; None when passwords are in Kafka Connect's environment.
    secrets: Path | None = None

    def config(
        self, name: str, source: Source, dsn: Mapping[str, str], source_state: SourceState
    ) -> dict[str, str]:
        """Return a connector's configuration; `dsn` has the source's libpq parameters by name."""
        return {
            **_reach(name, dsn),
            "database.password": self._password(source),
            **_capture(name, source, source_state),
            **_write(name),
            **{f"topic.creation.default.{key}": value for key, value in self.topics.config.items()},
            "topic.creation.default.replication.factor": str(self.topics.replication),
            # The order of changes is that of the topic's offsets.
            "topic.creation.default.partitions": "1",
            # The connector's only client of its own: all others are the worker's.
            "signal.kafka.bootstrap.servers": self.brokers.bootstrap,
            **{f"signal.consumer.{key}": value for key, value in self.brokers.security.connect().items()},
        }

    def _password(self, source: Source) -> str:
        """Return the reference to the password: neither topics nor REST answers have the value."""
        name = source.dsn_env + PASSWORD_SUFFIX
        return f"${{directory:{self.secrets.absolute()}:{name}}}" if self.secrets else f"${{env:{name}}}"


def _reach(name: str, dsn: Mapping[str, str]) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": dsn.get("host", "127.0.0.1"),
        "database.port": dsn.get("port", "5432"),
        "database.user": dsn.get("user", ""),
        "database.dbname": dsn.get("dbname", ""),
        **{theirs: dsn[ours] for ours, theirs in _TLS.items() if ours in dsn},
        "driver.options": _SESSION,
        "plugin.name": "pgoutput",
        "slot.name": names.slot(name),
        "publication.name": names.publication(name),
        # FOR ALL TABLES, the default, would let a warehouse that is also a source capture its own tables.
        "publication.autocreate.mode": "disabled",
        "retriable.restart.connector.wait.ms": "1000",
        "slot.retry.delay.ms": "1000",
        "poll.interval.ms": "20",
        "max.queue.size": str(_QUEUED),
        "max.queue.size.in.bytes": str(_QUEUED_BYTES),
        "max.batch.size": str(_QUEUED // 4),
    }


def _capture(name: str, source: Source, source_state: SourceState) -> dict[str, str]:
    return {
        "snapshot.mode": "initial",
        "snapshot.fetch.size": str(_FETCHED_ROWS),
        "schema.include.list": ",".join(map(literal, source.schemas)),
        **_listed("table.exclude.list", _excluded(source, source_state)),
        # A snapshot includes generated columns, the stream does not.
        **_listed("column.exclude.list", _generated(source_state.tables)),
        # TRUNCATE is skipped by default.
        "skipped.operations": "none",
        "tombstones.on.delete": "false",
        # The identity of a change, and the number of changes in a transaction.
        "provide.transaction.metadata": "true",
        "decimal.handling.mode": "string",
        "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "hex",
        # As a number, a month would be 30.5 days.
        "interval.handling.mode": "string",
        "include.unknown.datatypes": "true",
        # A heartbeat alone frees no WAL that other databases of the server write; a message in this database
        # does.
        "heartbeat.interval.ms": str(_HEARTBEAT_MS),
        "heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'onramp', '')",
        "read.only": "true",
        "signal.enabled.channels": "kafka",
        "signal.kafka.topic": names.signal_topic(name),
        # Each source has its own topic: sources that shared one would receive each other's signals.
        "signal.kafka.groupId": f"onramp.signals.{name}",
        # A poll returns at once, and a secured consumer needs about twenty polls to start.
        "signal.poll.interval.ms": "200",
        # The signal consumer commits only when it ends: after a crash it would re-snapshot every table that
        # was ever requested. The agent checks whether a request was fulfilled.
        "signal.consumer.enable.auto.commit": "true",
        "signal.consumer.auto.commit.interval.ms": "500",
    }


def _write(name: str) -> dict[str, str]:
    return {
        "topic.prefix": names.topic_prefix(name),
        "topic.delimiter": names.DELIMITER,
        # The whole envelope is sent: ExtractNewRecordState, which unwraps it, drops TRUNCATE.
        "transforms": "context",
        "transforms.context.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.context.header": wire.HEADER_CONTEXT,
        "transforms.context.value.literal": wire.CONTEXT_BYTES.decode(),
        # The worker's own converter would write a column's default wherever a row has NULL.
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.converter.replace.null.with.default": "false",
        "producer.override.max.request.size": str(MAX_BYTES),
        "producer.override.linger.ms": "0",
        # One request is in flight at a time, which keeps the order; the default would send 14 rows in each.
        "producer.override.batch.size": str(_REQUEST_BYTES),
        "producer.override.buffer.memory": str(_BUFFER_BYTES),
    }


def _excluded(source: Source, source_state: SourceState) -> Iterator[str]:
    yield from map(_pattern, source.exclude)
    yield from (literal(name) for name in sorted(source_state.excluded_tables))
    # Partitions are captured under their root; a snapshot would also read them under their own name.
    yield from (literal(t.full_name) for t in source_state.tables if t.is_partition)


def _generated(tables: Iterable[Table]) -> Iterator[str]:
    for table in tables:
        if not table.is_partition:
            yield from (literal(f"{table.full_name}.{c.name}") for c in table.columns if c.generated)


def _listed(setting: str, patterns: Iterable[str]) -> dict[str, str]:
    # By default Debezium treats names that differ by case as the same.
    listed = ",".join(f"(?-i:{pattern})" for pattern in patterns)
    return {setting: listed} if listed else {}


def _pattern(pattern: str) -> str:
    return "".join(_ANY.get(c) or literal(c) for c in pattern)


def literal(text: str) -> str:
    """Return a text as a Java regular expression; an unescaped comma would end it."""
    return "".join(c if c in _PLAIN else f"\\x{{{ord(c):x}}}" for c in text)
