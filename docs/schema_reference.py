"""Builds docs/schema-reference.md from the migrations, so that Onramp's tables are described once, in SQL."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

_HEAD: Final = """\
# Tables of Onramp

Made by `python -m docs.generate` from the migrations; do not edit it by hand. Change these tables only where
a runbook says so. [Querying](querying.md) describes the tables of events.
"""
_OWNERS: Final = {
    "services/writer/postgres/sql": (
        "Writer",
        "In every database that the writer writes events to. Metrics, audit and replays read these tables.",
    ),
    "services/cdc/schema/sql": (
        "Change data capture",
        "In every database that a source is published to. The agent and the merger write these tables.",
    ),
    "services/admin/store/sql": (
        "Admin service",
        "In the control database (`ONRAMP_ADMIN_DSN`, else the writer's default database).",
    ),
}
#: Columns that mean the same in all tables; a comment in the SQL goes before.
_SHARED: Final[Mapping[str, str]] = {
    "actor": "Operator.",
    "act": "Action.",
    "at": "Time.",
    "attempt": "Number of the attempt to replay the event.",
    "changed": "Number of events that the job has changed.",
    "changed_at": "Time of the last change.",
    "changes": "Number of merged changes.",
    "cluster_id": "Id of the Kafka cluster.",
    "code": "Error code.",
    "column": "Column that the database named.",
    "columns": "Columns and their types.",
    "context": "Kafka header `context` of the record.",
    "count": "Number.",
    "counted": "Number of events that the job has to process.",
    "counts": "Number of events by facet and value.",
    "created_at": "Time of creation.",
    "cursor_key": "Key that signs the cursors of pages.",
    "db_schema": "Schema of the table.",
    "db_table": "Table.",
    "destination": "Destination, as `database.schema.table` or `schema.table`.",
    "digest": "Digest of the registry's routes.",
    "done_to": "Number of the last event that the job has processed.",
    "dropped": "Whether the table was dropped at the source.",
    "dsn_env": "Environment variable with the DSN of the source.",
    "end": "First offset after the range.",
    "epoch": "Epoch of the writer that settled last.",
    "error": "Reason, as in the header `onramp-error`.",
    "event": "Number of the event.",
    "event_id": "`metadata.id` of the event.",
    "event_name": "Name of the event.",
    "event_type": "Event type.",
    "events": "Number of events.",
    "failed": "Number of events, or reason, of a replay that failed.",
    "filters": "Filters that select the events.",
    "fingerprint": "Digest of the cause.",
    "finished_at": "Time when the job ended.",
    "first_event": "Number of the first event.",
    "first_seen": "Time of the first event.",
    "folder": "Folder of this installation in the store.",
    "dead_lettered_by": "Operator who dead-lettered the waiting events.",
    "gone": "Whether the bytes were deleted.",
    "group_id": "Group.",
    "heartbeat_age_s": "Seconds since the last heartbeat of the connector.",
    "suspended_since": "Time since which the table is suspended.",
    "hour": "Hour in which the events were parked.",
    "id": "Number.",
    "is_edited": "Whether the payloads were edited by hand.",
    "job": "Job of the admin service.",
    "json_type": "JSON type of the value.",
    "added_at": "Time when the row was added.",
    "stored_at": "Time when the row was added.",
    "key": "Key.",
    "kind": "Kind.",
    "landing": "Landing table of the changes.",
    "last_event": "Number of the last event.",
    "last_order": "Position of the last change in its transaction.",
    "last_seen": "Time of the last event.",
    "lsn": "Position in the WAL of the source.",
    "merged_at": "Time of the last merge.",
    "name": "Name.",
    "next_at": "Time of the next step.",
    "next_offset": "First offset that is not processed.",
    "offset": "Offset of the record.",
    "one": "Always true: the table has at most one row.",
    "outcome": "Outcome.",
    "out_of_sync_at": "Time since which changes are missing.",
    "out_of_sync_why": "Reason why changes are missing.",
    "parked": "Weight of the parked events of the last events.",
    "parked_at": "Time when the event was parked.",
    "partition": "Partition.",
    "payload": "Edited payload.",
    "place": "JSON Pointer to the value.",
    "rate": "Maximum events per second.",
    "reason": "Reason.",
    "received_at": "Time when the gateway received the event.",
    "remark": "Kind of the warning.",
    "repeats": "Number of changes that were repetitions.",
    "resolution": "Decision of the operator.",
    "resolved_by": "Operator who decided.",
    "retained_bytes": "Bytes of WAL that the slot retains.",
    "schema_name": "Schema at the source.",
    "segment": "First event of the segment.",
    "quarantined_at": "Time when the event was quarantined.",
    "sha256": "SHA-256 of the bytes.",
    "since": "Time of the beginning.",
    "size": "Size in bytes.",
    "slot_active": "Whether a process reads the slot.",
    "source": "Name of the source in the registry.",
    "sqlstate": "SQLSTATE of the database.",
    "staged_at": "Time when the row was added.",
    "start": "First offset of the range.",
    "state": "State.",
    "step": "Step that failed.",
    "subject": "Event, group, job or registry entry.",
    "table_name": "Table at the source.",
    "timeouts": "Number of timeouts in a row.",
    "timestamp": "Time of the record.",
    "to": "Another table of the same database.",
    "token": "Token of the snapshot's marker.",
    "topic": "Kafka topic.",
    "topic_id": "Kafka's id of the topic.",
    "typed": "Whether the row is for the table's own columns.",
    "upload": "Upload.",
    "upto": "Number of the last event of the set, or first offset after the range.",
    "uuid": "Id of the job in the databases.",
    "value": "Bytes of the event.",
    "version": "Version of the fingerprint.",
    "waits": "Reason why the job waits.",
    "wal_status": "`wal_status` of the slot.",
    "walked": "Whether the job has processed its set.",
    "with_triggers": "Whether tables with triggers are rehearsed.",
    "event_ids": "Numbers of the events that are rehearsed.",
    "began_at": "Time when the rehearsal began.",
    "has_rows": "Whether the table had rows.",
    "excluded_tables": "Excluded tables, each with its reason.",
    "polled_at": "Time of the last poll.",
    "minute": "Minute of refused requests, in UTC.",
    "own_lsn": "Position up to which the source's own connector can have read.",
    "resnapshots": "Tables to re-snapshot, each with its reason.",
    "observed_at": "Time when the agent observed this state of the table.",
    "snapshot": "Transactions whose commits the snapshot includes (`pg_snapshot`).",
    "stored_shape": "Columns of the public table as the merger left it.",
    "snapshot_before": "Position before which the snapshot has all commits.",
    "slot_reader": "Process that read the slot at the last poll.",
    "why": "Reasons why events would not land, with counts.",
    "would_land": "Number of events that would land.",
    "assignee": "Operator who works on the group.",
}
_TABLE: Final = re.compile(r"(CREATE TABLE|CREATE VIEW|ALTER TABLE(?= [\w.]+$)) ([\w.]+)")
_ADDED: Final = "ADD COLUMN "
_COLUMN: Final = re.compile(
    r"^    \"?(\w+)\"?\s+([a-z][\w\[\]]*(?: precision)?)\b(?!\s*\()(.*?)(?:--\s*(.*))?$"
)
_CONSTRAINT: Final = re.compile(r"^    (?:PRIMARY KEY|UNIQUE) ?\((.*?)\)")


@dataclass
class _Table:
    name: str
    meaning: str
    key: str = ""
    columns: list[tuple[str, str, str]] = field(default_factory=list)


def schema_page() -> str:
    """Return the text of docs/schema-reference.md."""
    parts = [_HEAD]
    for folder, (owner, where) in _OWNERS.items():
        parts += [f"## {owner}", f"{where} Migrations: [{folder}](../{folder})."]
        tables: dict[str, _Table] = {}
        for file in sorted((ROOT / folder).glob("*.sql")):
            for table in _tables(file.read_text("utf-8")):
                tables.setdefault(
                    table.name, _Table(table.name, table.meaning, table.key)
                ).columns += table.columns
        for table in tables.values():
            parts += _section(table)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _section(table: _Table) -> Iterator[str]:
    yield f"### {table.name}"
    if table.meaning:
        yield table.meaning
    if table.columns:
        rows = [f"| `{name}` | `{kind}` | {meaning} |" for name, kind, meaning in table.columns]
        yield "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])
    if table.key:
        yield f"Key: {table.key}."


def _tables(text: str) -> Iterator[_Table]:
    comment: list[str] = []
    table: _Table | None = None
    for line in text.splitlines():
        if line.strip().startswith("--"):
            comment.append(line.strip().removeprefix("--").strip())
        elif found := _TABLE.match(line):
            table = _Table(found[2], " ".join(comment))
            comment = []
            if found[1] == "CREATE VIEW":
                yield table
                table = None
        elif table is None:
            comment = []
        elif line.startswith(")"):
            yield table
            table, comment = None, []
        else:
            _add(table, line.replace(_ADDED, "", 1), " ".join(comment))
            comment = []
            if _ADDED in line and line.endswith(";"):
                yield table
                table = None


def _add(table: _Table, line: str, comment: str) -> None:
    if constraint := _CONSTRAINT.match(line):
        table.key = table.key or _quoted(constraint[1])
    elif column := _COLUMN.match(line):
        name, kind, rest, behind = column.groups()
        meaning = " ".join(filter(None, (comment, behind))) or _SHARED.get(name, "")
        table.columns.append((name, kind, meaning.replace("|", "\\|") + _allowed(rest.partition(" IN (")[2])))
        if "PRIMARY KEY" in rest:
            table.key = f"`{name}`"
    elif table.columns and line.startswith("        "):
        name, kind, meaning = table.columns[-1]
        table.columns[-1] = (name, kind, meaning + _allowed(line))


def _allowed(values: str) -> str:
    """Return the quoted values of a CHECK, as text."""
    names = re.findall(r"'(\w+)'", values)
    return f" One of {', '.join(f'`{name}`' for name in names)}." if names else ""


def _quoted(columns: str) -> str:
    return ", ".join(f"`{name.strip().strip(chr(34))}`" for name in columns.split(","))
