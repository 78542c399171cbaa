"""One change of the registry: its differences, its checks, and the record that brings it into force."""

import getpass
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from services.ops.registry.database_addresses import Places
from services.ops.registry.tables import Creation, make_dropped_tables, make_tables
from shared import wire
from shared.contracts.compile_cost import require_quick_start
from shared.contracts.json_schema import compile_schema
from shared.contracts.pair import Kind
from shared.contracts.schema_references import TooCostlyError
from shared.errors import UserError
from shared.postgres.names import MAX_NAME_BYTES, is_name
from shared.registry.changes import SchemaChange, schema_changes
from shared.registry.difference import Difference, difference, too_large
from shared.registry.editor import Editor
from shared.registry.entries import Snapshot
from shared.registry.factory import open_log
from shared.registry.file import RegistryFileError, line_in, load, placed
from shared.registry.known_databases import unknown_places
from shared.registry.memory import reasons
from shared.registry.merge import merge_file, with_deployed
from shared.registry.sources import require_no_clash
from shared.registry.transforms import require_fit
from shared.settings import KafkaSettings, RegistrySettings


class State(StrEnum):
    """How a change ended."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    #: Valid, and only a dry run was requested.
    POSSIBLE = "possible"
    REFUSED = "refused"
    UNDECIDED = "undecided"
    CONFLICT = "conflict"


class Result(NamedTuple):
    """The result of a change: state, reason, differences, and schema findings."""

    state: State
    reason: str = ""
    changes: list[str] = []  # noqa: RUF012 - never changed
    findings: list[SchemaChange] = []  # noqa: RUF012
    offset: int | None = None
    #: DDL that was executed before, or would be.
    ddl: list[str] = []  # noqa: RUF012
    #: Entries that others created or changed, and that the file leaves unchanged.
    unchanged: list[str] = []  # noqa: RUF012

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        found = [{"event_type": each.event_type, **each.finding._asdict()} for each in self.findings]
        return {**self._asdict(), "findings": found}

    def lines(self) -> list[str]:
        """Return it as lines for people."""
        return [*self.changes, *self.unchanged, *map(finding_line, self.findings), *self.ddl]


class Wish(NamedTuple):
    """The actor, reason and options of a change."""

    actor: str = ""
    reason: str = ""
    accept: bool = False
    is_dry: bool = False
    #: Whether the file overwrites changes of others, and removes entries that it does not name.
    overwrite: bool = False


def finding_line(change: SchemaChange) -> str:
    """Return a finding as a line for people."""
    kind, pointer, reason = change.finding
    line = f"line {change.line}: " if change.line else ""
    return f"{line}{change.event_type} {pointer or '/'}: {kind}: {reason}"


@contextmanager
def editing(kafka: KafkaSettings, named: RegistrySettings | None = None) -> Iterator[Editor]:
    """Open the registry in Kafka for a change, by default the environment's. Raises as `Editor` does."""
    log = open_log(named or RegistrySettings(), kafka)
    try:
        yield Editor(log)
    finally:
        log.close()


def apply_file(editor: Editor, file: Path, wish: Wish, where: Places | None = None) -> Result:
    """Bring the file into force, or return why not; tables are created in `where`.

    Raises `InfrastructureError`.
    """
    try:
        wanted = load(file)
    except RegistryFileError as error:
        return Result(State.REFUSED, str(error))
    kept: list[str] = []
    try:
        if wish.overwrite:
            wanted = with_deployed(wanted, editor.chain.snapshot())
        else:
            wanted, kept, clashes = merge_file(editor.chain, wanted)
            if clashes:
                return Result(State.REFUSED, _both_changed(clashes), unchanged=kept)
    except ValueError as error:  # an entry of the file and one of others do not fit together
        return Result(State.REFUSED, placed(file, "; ".join(reasons(error))))
    result = change_to(editor, wanted, wish, where, of_file=True)
    return result._replace(
        unchanged=kept,
        reason=placed(file, result.reason),
        findings=[_with_line(file, f) for f in result.findings],
    )


def change_to(
    editor: Editor, wanted: Snapshot, wish: Wish, where: Places | None = None, *, of_file: bool = False
) -> Result:
    """Bring the sections that `wanted` names into force: checks, then tables, then the record.

    A change of a file also creates dropped tables of destinations with `create: true` again.

    Raises `InfrastructureError`.
    """
    differs = difference(editor.chain, wanted)
    lines = differs.lines(editor.chain.document())
    before = editor.chain.snapshot()
    if differs.is_empty:
        return _unchanged(before, wish, where if of_file else None)
    after, unfit = _after(before, wanted)
    reason = unfit or _wrong(before, after, differs)
    if reason := reason or (_not_configured(after, differs, where) if where else ""):
        return Result(State.REFUSED, reason, lines)
    findings = schema_changes(before, after)
    result = Result(State.POSSIBLE, changes=lines, findings=findings)
    kinds = {each.finding.kind for each in findings}
    if Kind.BREAK in kinds:
        return result._replace(state=State.REFUSED, reason="a schema rejects previously valid events")
    if Kind.UNDECIDED in kinds and not wish.accept:
        reason = "review the undecided findings, then use --accept"
        return result._replace(state=State.UNDECIDED, reason=reason)
    made = make_tables(where, before, after, is_dry=wish.is_dry) if where else Creation([])
    if where and of_file and not made.problem:
        again = make_dropped_tables(where, before, after, is_dry=wish.is_dry)
        made = made._replace(
            statements=[*made.statements, *again.statements],
            unseen="; ".join(filter(None, (made.unseen, again.unseen, again.problem))),
        )
    result = result._replace(ddl=made.statements)
    if made.problem or wish.is_dry:
        state = State.REFUSED if made.problem else State.POSSIBLE
        return result._replace(state=state, reason=made.problem or made.unseen)
    return _with_record(result, _written(editor, differs, wish, of_file=of_file), made.unseen)


def _unchanged(in_force: Snapshot, wish: Wish, where: Places | None) -> Result:
    """Return the result of a change without differences, after creating tables that were dropped."""
    same = Result(State.UNCHANGED, "nothing differs")
    if where is None:
        return same
    again = make_dropped_tables(where, in_force, in_force, is_dry=wish.is_dry)
    if again.problem:
        return Result(State.REFUSED, again.problem, ddl=again.statements)
    done = "would be created again" if wish.is_dry else "were created again"
    said = (same.reason, f"dropped tables {done}" if again.statements else "", again.unseen)
    return same._replace(reason="; ".join(filter(None, said)), ddl=again.statements)


def _with_record(result: Result, written: Result, unseen: str) -> Result:
    unused = " (the created tables remain, unused)" if result.ddl and written.reason else ""
    reason = written.reason + unused or unseen
    return result._replace(state=written.state, reason=reason, offset=written.offset)


def _written(editor: Editor, differs: Difference, wish: Wish, *, of_file: bool) -> Result:
    try:
        offset = editor.write(differs, wish.actor or getpass.getuser(), wish.reason, of_file=of_file)
    except UserError as error:
        return Result(State.CONFLICT, f"{error.detail}: {error.fault.fix}")
    except ValueError as error:
        return Result(State.REFUSED, str(error))
    return Result(State.APPLIED, offset=offset)


def _with_line(file: Path, change: SchemaChange) -> SchemaChange:
    steps = [each.replace("~1", "/").replace("~0", "~") for each in change.finding.pointer.split("/")[1:]]
    return change._replace(line=line_in(file, ["event_types", change.event_type, "schema", *steps]))


def _after(before: Snapshot, wanted: Snapshot) -> tuple[Snapshot, str]:
    """Return the registry after the change, and why its entries do not fit together; empty if they do."""
    try:
        return Snapshot(**_named(before) | _named(wanted)), ""
    except ValueError as error:
        return before, "; ".join(reasons(error))


def _named(snapshot: Snapshot) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in snapshot.model_fields_set}


def _wrong(before: Snapshot, after: Snapshot, differs: Difference) -> str:
    """Return why services cannot use the differing entries; empty if they can."""
    try:
        require_quick_start(_schemas(after), _schemas(before))
    except TooCostlyError as error:
        return f"event_types: {error}"
    for name in differs.put.get("event_types", {}):
        try:
            compile_schema(after.event_types[name].checked_schema or {})
        except ValueError as error:
            return f"event_types.{name}.schema: {error}"
    if place := _without_name(after, differs):
        return f"{place}: a name in Postgres has at most {MAX_NAME_BYTES} bytes, and no NUL"
    for name, event_type in after.event_types.items():
        topic = event_type.topic or ""
        if source := next((each for each in after.sources if wire.is_change_topic(topic, each)), ""):
            return (
                f"event_types.{name}.topic: {topic} is for the changes of the source {source}: name another"
            )
    try:
        require_no_clash(after.sources, after.models)
        require_fit(after.transforms, after.lookups, after.event_types)
    except ValueError as error:
        return str(error)
    return too_large(after)


def _without_name(after: Snapshot, differs: Difference) -> str:
    """Return the first differing destination that Postgres cannot name; empty without one."""
    for name in differs.put.get("event_types", {}):
        for index, each in enumerate(after.event_types[name].database_destinations):
            if not all(is_name(part) for part in (each.db_schema, each.table) if part):
                return f"event_types.{name}.destinations.{index}"
    return ""


def _schemas(snapshot: Snapshot) -> Iterator[Mapping[str, Any]]:
    return (each.json_schema for each in snapshot.event_types.values() if each.json_schema)


def _not_configured(after: Snapshot, differs: Difference, where: Places) -> str:
    """Return the part of the change that the writer's settings do not allow; empty if there is none."""
    put = differs.put
    changed = Snapshot(
        event_types={name: after.event_types[name] for name in put.get("event_types", {})},
        sources={name: after.sources[name] for name in put.get("sources", {})},
        lookups={name: after.lookups[name] for name in put.get("lookups", {})},
        grants=after.grants if "grants" in put else (),
        contracts=after.contracts if "contracts" in put else (),
    )
    schemas = {name: where.open_schemas(name) for name in where.databases}
    default = next(iter(schemas), "")
    wrong = unknown_places(changed, schemas, default)
    if not schemas:  # the writer has the default database, whatever its name
        wrong = {place: reason for place, reason in wrong.items() if not _is_default(after, place)}
    told = "; ".join(f"{place}: {reason}" for place, reason in wrong.items())
    return f"{told} (the writer's settings; for `onramp` --dsn and --databases)" if told else ""


def _is_default(after: Snapshot, place: str) -> bool:
    """Return whether a place names no database, or a pattern for all."""
    section, *rest = place.split(".")
    if section == "event_types":
        destination = after.event_types[rest[0]].destinations[int(rest[2])]
        return not (destination.vanity or destination.database)
    if section in ("sources", "lookups"):
        return False
    pattern = (after.grants if section == "grants" else after.contracts)[int(rest[0])].database
    return fnmatchcase("", pattern)


def _both_changed(places: list[str]) -> str:
    return (
        f"{', '.join(places)}: others changed it since the file was applied, and so has the file; "
        "write what `onramp export` prints of it, or say --overwrite to have the file win"
    )
