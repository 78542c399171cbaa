"""The configuration of a source's connector, each setting that is not the default with its reason."""

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

#: Rows of an event's topic may have as much (shared/topics.py), and what Debezium says of them.
MAX_BYTES: Final = 16 << 20
_REQUEST_BYTES: Final = 256 << 10
#: Of each row that waits to be sent Kafka Connect keeps objects five times its size: with the default of
#: 32 MB a snapshot filled its heap, and it did little but collect garbage. One row must fit.
_BUFFER_BYTES: Final = MAX_BYTES + (1 << 20)
#: Rows that are read and not yet with the producer, for the same reason: half of the default.
_QUEUED: Final = 4096
#: Of large rows that many would not fit: half of what may be read ahead of the producer's buffer.
_QUEUED_BYTES: Final = MAX_BYTES
#: The driver has as many rows at once, whatever their size: the default of 10,240, of a megabyte each, ended
#: the worker.
_FETCHED_ROWS: Final = 32
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_ANY: Final = {"*": ".*", "?": "."}
_HEARTBEAT_MS: Final = 1000
#: A snapshot that lacks rows which a policy hides fails.  A session that waits is ended by nobody.
_SESSION: Final = session((*USUAL, "row_security=off", "idle_session_timeout=0"))
#: libpq's names of what Debezium's driver takes, by its own.
_TLS: Final = {
    "sslmode": "database.sslmode",
    "sslrootcert": "database.sslrootcert",
    "sslcert": "database.sslcert",
    "sslkey": "database.sslkey",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How topics of changes are made."""

    replication: int
    min_insync: int
    retention_ms: int

    @property
    def config(self) -> dict[str, str]:
        """Return what Kafka is told of each."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "retention.bytes": "-1",
            "max.message.bytes": str(MAX_BYTES),
            "min.insync.replicas": str(self.min_insync),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What all sources' configurations have in common."""

    brokers: Brokers
    topics: TopicSettings
    #: The folder of files with passwords; None: they are in Kafka Connect's environment.
    secrets: Path | None = None

    def config(
        self, name: str, source: Source, dsn: Mapping[str, str], source_state: SourceState
    ) -> dict[str, str]:
        """Return a connector's configuration; `dsn` has libpq's parameters of the source by name."""
        return {
            **_reach(name, dsn),
            "database.password": self._password(source),
            **_capture(name, source, source_state),
            **_write(name),
            **{f"topic.creation.default.{key}": value for key, value in self.topics.config.items()},
            "topic.creation.default.replication.factor": str(self.topics.replication),
            # Order is the topic's offset.
            "topic.creation.default.partitions": "1",
            # The only client of the connector's own: all others are the worker's.
            "signal.kafka.bootstrap.servers": self.brokers.bootstrap,
            **{f"signal.consumer.{key}": value for key, value in self.brokers.security.connect().items()},
        }

    def _password(self, source: Source) -> str:
        """Return where Kafka Connect reads it: it is in no topic and no answer of its interface."""
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
        # FOR ALL TABLES, its default, would make a warehouse that is a source too feed itself.
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
        # A snapshot carries them, the stream does not.
        **_listed("column.exclude.list", _generated(source_state.tables)),
        # TRUNCATE is skipped by default.
        "skipped.operations": "none",
        "tombstones.on.delete": "false",
        # The identity of a change, and how many a transaction has.
        "provide.transaction.metadata": "true",
        "decimal.handling.mode": "string",
        "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "hex",
        # As a number a month would be thirty days and a half.
        "interval.handling.mode": "string",
        "include.unknown.datatypes": "true",
        # Heartbeats alone free no WAL that other databases of the server write; a message in ours does.
        "heartbeat.interval.ms": str(_HEARTBEAT_MS),
        "heartbeat.action.query": "SELECT pg_logical_emit_message(false, 'onramp', '')",
        "read.only": "true",
        "signal.enabled.channels": "kafka",
        "signal.kafka.topic": names.signal_topic(name),
        # Of its own: sources that shared one would take each other's signals.
        "signal.kafka.groupId": f"onramp.signals.{name}",
        # A poll waits for nothing, and a secured consumer that begins makes one step at each: some twenty.
        "signal.poll.interval.ms": "200",
        # It commits at its end alone: after a crash all tables that ever were asked for would be read again.
        # Who asks looks whether it was done.
        "signal.consumer.enable.auto.commit": "true",
        "signal.consumer.auto.commit.interval.ms": "500",
    }


def _write(name: str) -> dict[str, str]:
    return {
        "topic.prefix": names.topic_prefix(name),
        "topic.delimiter": names.DELIMITER,
        # The whole envelope: what unwraps it (ExtractNewRecordState) drops TRUNCATE.
        "transforms": "context",
        "transforms.context.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.context.header": wire.HEADER_CONTEXT,
        "transforms.context.value.literal": wire.CONTEXT_BYTES.decode(),
        # A worker's own would write a column's default wherever a row has NULL in it.
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.converter.replace.null.with.default": "false",
        "producer.override.max.request.size": str(MAX_BYTES),
        "producer.override.linger.ms": "0",
        # One request is on its way at a time, so that order holds: it must not be the default's 14 rows.
        "producer.override.batch.size": str(_REQUEST_BYTES),
        "producer.override.buffer.memory": str(_BUFFER_BYTES),
    }


def _excluded(source: Source, source_state: SourceState) -> Iterator[str]:
    yield from map(_pattern, source.exclude)
    yield from (literal(name) for name in sorted(source_state.left_out))
    # They are read under their root; a snapshot would read them under their own name as well.
    yield from (literal(t.full_name) for t in source_state.tables if t.is_partition)


def _generated(tables: Iterable[Table]) -> Iterator[str]:
    for table in tables:
        if not table.is_partition:
            yield from (literal(f"{table.full_name}.{c.name}") for c in table.columns if c.generated)


def _listed(setting: str, patterns: Iterable[str]) -> dict[str, str]:
    # By itself Debezium takes names that differ by case for the same.
    listed = ",".join(f"(?-i:{pattern})" for pattern in patterns)
    return {setting: listed} if listed else {}


def _pattern(pattern: str) -> str:
    return "".join(_ANY.get(c) or literal(c) for c in pattern)


def literal(text: str) -> str:
    """Return a text as a regular expression of Java; a comma as itself would end it."""
    return "".join(c if c in _PLAIN else f"\\x{{{ord(c):x}}}" for c in text)
