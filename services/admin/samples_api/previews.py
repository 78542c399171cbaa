"""The route of previews: the DDL of an event type's table, and its samples as rows of it.

The running writer lands the samples in a temporary copy of the table, and rolls back.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI

from services.admin.api.operators import Caller
from services.admin.api.rights import Asking
from services.admin.attempts import Destination
from services.admin.registry_api.schemas import valid
from services.admin.samples_api.newest import newest_records
from services.admin.samples_api.schemas import PreviewRequest
from services.admin.store import previews_sql
from services.admin.store.control_sql import transaction
from services.admin.store.previews_sql import Preview
from services.admin.store.read_sql import record_act
from services.ops.fixes import exact
from services.ops.parked.fingerprint import cause_of
from services.ops.parked.title import title_of
from services.ops.registry.change import Wish, change_to
from services.ops.registry.checks import preflight, tables_of
from services.ops.registry.inference import event_of, payload_of
from services.ops.registry.registry_reader import RegistryReader
from shared.contracts.tables import quoted
from shared.errors import REGISTRY_REFUSED, UserError
from shared.registry import EventType, Snapshot

#: Newest events of a preview, and records that are searched for them.
_SHOWN: Final = 10
_SEARCHED: Final = 200
#: Seconds that a writer has to answer: it looks for previews each second.
_SECONDS: Final = 5.0
_HIDDEN: Final = "***"


class Previews:
    """Makes previews; for the route and pages."""

    def __init__(self, dsn: str, desk: RegistryReader, *, seconds: float = _SECONDS) -> None:
        self._dsn = dsn
        self._desk = desk
        self._seconds = seconds

    def preview(self, asked: PreviewRequest, asking: Caller) -> dict[str, Any]:
        """Return the change's outcome and DDL, the preflight of its table, and each sample as a row.

        `state` is `answered`, or the reason is in `detail`: `unanswered` without a writer, `untried`.
        """
        event_type = valid(EventType, asked.event_type)
        actor = asking.acting(asked.actor)
        places = self._desk.places
        snapshot = Snapshot(event_types={asked.name: event_type})
        table = next(iter(tables_of(places, snapshot)), None)
        if table is None:
            raise UserError(REGISTRY_REFUSED, "event_type: name a destination with a schema and a table")
        place, _, destination = table
        if place.database not in places.databases:
            raise UserError(REGISTRY_REFUSED, f"the database {place.database} is not known")
        try:
            quoted(place.schema), quoted(place.table)
        except ValueError as e:
            raise UserError(REGISTRY_REFUSED, f"event_type: {e}") from None
        samples = asked.samples or self._newest(asked, actor)
        events = [event_of(text, asked.name, f"preview-{i}") for i, text in enumerate(samples)]
        with self._desk.editing() as editor:
            types = {**editor.chain.snapshot().event_types, asked.name: event_type}
            wish = Wish(actor, asked.reason or "preview", accept=True, is_dry=True)
            change = change_to(editor, Snapshot(event_types=types), wish, places).as_dict()
        facts = [fact._asdict() for _, fact in preflight(places, asked.name, event_type)]
        fields = dict(event_type.json_schema or {}) if destination.create else None
        wanted = Preview(place.schema, place.table, event_type.contract.unknown_fields, fields, events)
        where = Destination(place.database, places.databases[place.database])
        return {
            "table": place._asdict() | {"create": destination.create},
            "change": {name: change[name] for name in ("state", "reason", "changes", "findings")},
            "ddl": change["ddl"],
            "facts": facts,
            **self._rows(where, wanted, event_type.personal),
        }

    def _newest(self, asked: PreviewRequest, actor: str) -> list[str]:
        """Return the newest events; the audit log first records who sees them and why."""
        with transaction(self._dsn) as conn:
            record_act(conn, actor, "preview", f"event type {asked.name}", asked.reason)
        topic = self._desk.read().snapshot.topic_of(asked.name)
        values = [record.value or b"" for record in newest_records(self._desk, topic, _SEARCHED)]
        found = [value for value in values if payload_of(value, asked.name) is not None][:_SHOWN]
        return [value.decode(errors="replace").replace("\0", "") for value in found]

    def _rows(self, where: Destination, wanted: Preview, personal: tuple[str, ...]) -> dict[str, Any]:
        if not wanted.samples:
            return {"state": "untried", "detail": "there is no event of this name yet", "samples": []}
        answer = previews_sql.answer_of(where, wanted, self._seconds)
        if answer is None:
            detail = f"no writer has answered within {self._seconds:.0f} s: start it with `onramp writer`"
            return {"state": "unanswered", "detail": detail, "samples": []}
        if answer["problem"]:
            return {"state": "untried", "detail": answer["problem"], "samples": []}
        of = zip(wanted.samples, answer["samples"], strict=True)
        shown = [_sample(found, text, f"{where.name}.{wanted.schema}.{wanted.table}") for text, found in of]
        hidden = {pointer.split("/")[1] for pointer in personal if pointer.startswith("/")}
        return {"state": "answered", "detail": "", "samples": [_without(each, hidden) for each in shown]}


def _sample(found: Mapping[str, Any], text: str, destination: str) -> dict[str, Any]:
    """Return a sample's outcome: the row as Postgres' JSON text, or why it would be parked."""
    if found["outcome"] == "landed":
        return {"outcome": "would land", "row": found["row"], "title": "", "detail": ""}
    cause = cause_of({**found, "destination": destination}, text.encode())
    title = title_of(cause, found.get("column_type"))
    return {"outcome": "would be parked", "row": None, "title": title, "detail": found["detail"]}


def _without(sample: dict[str, Any], hidden: set[str]) -> dict[str, Any]:
    """Return the sample without the values of personal columns; numbers keep all their digits otherwise."""
    if not hidden or sample["row"] is None:
        return sample
    row = exact.loads(sample["row"].encode())
    row |= {name: _HIDDEN for name in row.keys() & hidden if row[name] is not None}
    return sample | {"row": exact.dumps(row).decode()}


def add_previews(app: FastAPI, previews: Previews) -> None:
    """Add the route."""

    @app.post("/v1/previews")
    def preview_type(asked: PreviewRequest, asking: Asking) -> dict[str, Any]:
        """The DDL of an event type's table, its preflight, and samples as rows of it; nothing is changed."""
        return previews.preview(asked, asking)
