"""The error table: every failure of an event, its cause and its fix.

``docs/errors.md`` and the gateway's ``/errors/<code>`` pages are generated from it. The
kind of a fault decides the event's outcome: *rejected* by the gateway (nothing was produced), *parked*
(the event or its sender is at fault: an operator must act) or *waiting* (Onramp or the
infrastructure are at fault: it lands later by itself).
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from shared.path_steps import Step


class Kind(StrEnum):
    """The kind of a fault, which decides the event's outcome."""

    REJECTED = "rejected"
    PARKED = "parked"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the error table."""

    code: str
    kind: Kind
    step: Step
    title: str
    _: KW_ONLY
    fix: str
    status: int | None = None
    retry: bool = False
    #: At the gateway: False if nothing was produced, None if unknown.
    accepted: bool | None = False

    @property
    def level(self) -> int:
        """Return the log level: WARNING for a client's fault, ERROR for an internal one."""
        return logging.ERROR if self.kind is Kind.WAITING or self.retry else logging.WARNING


class OnrampError(Exception):
    """An event or request failed for a reason in the error table.

    `detail` describes the failure without payload values; `pointer` is the JSON Pointer
    (RFC 6901) of the place at fault, empty for the whole document.  `step` and `accepted`
    come from the table unless `at` or `surely` sets them. `sqlstate`, `column` and `constraint` come
    from the database's error, if any (`of_database`); `column_type` is the column's declared type.
    """

    sqlstate: str | None = None
    column: str | None = None
    constraint: str | None = None
    column_type: str | None = None

    def __init__(self, fault: Fault, detail: str, pointer: str = "") -> None:
        super().__init__(f"{fault.code}: {detail}")
        self.fault = fault
        self.detail = detail
        self.pointer = pointer
        self.step = fault.step
        self.accepted = fault.accepted

    def at(self, step: Step) -> Self:
        """Set the step of the failure and return self: a fault can happen at more than one step."""
        self.step = step
        return self

    def surely(self, *, accepted: bool) -> Self:
        """Set whether the event is on Kafka and return self: the caller may know more than the table."""
        self.accepted = accepted
        return self

    def of_database(self, sqlstate: str | None, column: str | None, constraint: str | None) -> Self:
        """Set the names in a database's error, never values, and return self."""
        self.sqlstate, self.column, self.constraint = sqlstate or None, column or None, constraint or None
        return self

    def without_frames(self) -> Self:
        """Return self without traceback and causes, to be stored as a verdict.

        Frames reference their locals, including the list with this verdict: a cycle that is freed late.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __reduce__(self) -> tuple[type["OnrampError"], tuple[Fault, str, str], dict[str, Any]]:
        # Spark pickles errors from workers to the driver; __init__ has other arguments than Exception's.
        return type(self), (self.fault, self.detail, self.pointer), self.__dict__


class UserError(OnrampError):
    """The event or its sender is at fault: the same bytes would fail again."""


class InfrastructureError(OnrampError):
    """Onramp or the infrastructure is at fault: the same bytes may succeed later."""


def _rejected(code: str, status: int, step: Step, title: str, fix: str) -> Fault:
    return Fault(code, Kind.REJECTED, step, title, fix=fix, status=status)


def _parked(code: str, step: Step, title: str, fix: str) -> Fault:
    return Fault(code, Kind.PARKED, step, title, fix=fix)


def _waiting(
    code: str, step: Step, title: str, fix: str, status: int | None = None, *, accepted: bool | None = False
) -> Fault:
    return Fault(code, Kind.WAITING, step, title, fix=fix, status=status, retry=True, accepted=accepted)


# --- the gateway --------------------------------------------------------------------------
EMPTY_BODY: Final = _rejected(
    "empty_body",
    400,
    Step.DECODE,
    "The request has no body.",
    "Send one envelope as a JSON object, or an array of envelopes.",
)
BAD_JSON: Final = _rejected(
    "bad_json",
    400,
    Step.DECODE,
    "The body is not JSON in UTF-8.",
    "Send one JSON document (RFC 8259) encoded as UTF-8 without a byte order mark.",
)
DUPLICATE_KEY: Final = _rejected(
    "duplicate_key",
    400,
    Step.DECODE,
    "An object has a repeated key.",
    "Send every key once: parsers disagree on which one counts.",
)
BIG_INTEGER: Final = _rejected(
    "big_integer",
    400,
    Step.DECODE,
    "An integer would lose digits.",
    "Send integers outside of -2^63 to 2^64-1 as strings.",
)
TOO_DEEP: Final = _rejected(
    "too_deep",
    400,
    Step.DECODE,
    "The document is nested too deeply.",
    "Flatten the document: at most 64 levels of objects and arrays.",
)
BODY_TOO_LARGE: Final = _rejected(
    "body_too_large",
    413,
    Step.RECEIVE,
    "The body is larger than the limit.",
    "Split the batch into smaller requests.",
)
BATCH_TOO_LARGE: Final = _rejected(
    "batch_too_large",
    413,
    Step.DECODE,
    "The batch has more events than the limit.",
    "Split the batch into smaller requests.",
)
EVENT_TOO_LARGE: Final = _rejected(
    "event_too_large",
    413,
    Step.CHECK,
    "The event is larger than the limit.",
    "Send less, or store the large part elsewhere and send a reference to it.",
)
BATCH_TOO_COSTLY: Final = _waiting(
    "batch_too_costly",
    Step.CHECK,
    "Checking the batch by its event types' schemas takes too long.",
    "Send the events that were not accepted again, with the same ids, in smaller batches.",
    429,
)
UNSUPPORTED_MEDIA_TYPE: Final = _rejected(
    "unsupported_media_type",
    415,
    Step.RECEIVE,
    "The content type or content encoding is not supported.",
    "Send application/json, application/x-ndjson or CloudEvents; plain or as gzip, zstd or deflate.",
)
BAD_COMPRESSION: Final = _rejected(
    "bad_compression",
    400,
    Step.RECEIVE,
    "The compressed body cannot be inflated.",
    "Send one complete stream of the encoding that Content-Encoding names.",
)
BAD_CLOUDEVENT: Final = _rejected(
    "bad_cloudevent",
    422,
    Step.DECODE,
    "The event is not a CloudEvent 1.0.",
    "Send the attributes specversion, id, source and type as defined by CloudEvents 1.0.",
)
UNAUTHENTICATED: Final = _rejected(
    "unauthenticated",
    401,
    Step.RECEIVE,
    "The API key is missing or not valid.",
    "Send the header Authorization: Bearer <key> once, with a key that is neither expired nor revoked.",
)
CROSS_ORIGIN: Final = _rejected(
    "cross_origin",
    403,
    Step.RECEIVE,
    "Without API keys the gateway answers only programs on this machine.",
    "Call it as 127.0.0.1 or localhost, list a web page in ONRAMP_INGEST_CORS_ORIGINS, or create API keys.",
)
NOT_GRANTED: Final = _rejected(
    "not_granted",
    403,
    Step.CHECK,
    "The API key may not send this.",
    "Ask an operator to grant the event name or destination to the key.",
)
TOO_MANY_NAMES: Final = _rejected(
    "too_many_names",
    403,
    Step.CHECK,
    "The API key has reached its limit of new event names.",
    "Use an existing event name, or ask an operator to raise the key's max_new_names.",
)
UNKNOWN_EVENT_NAME: Final = _rejected(
    "unknown_event_name",
    403,
    Step.CHECK,
    "The event name is not registered, and this gateway accepts only registered names.",
    "Use the name of a registered event type, or ask an operator to register this one.",
)
SCHEMA_MISMATCH: Final = _rejected(
    "schema_mismatch",
    422,
    Step.CHECK,
    "The payload does not match the event type's JSON Schema.",
    "Correct every field that `errors` names.",
)
KEY_MISSING: Final = _rejected(
    "key_missing",
    422,
    Step.ROUTE,
    "The payload has no value at the event type's key pointer.",
    "Send a non-empty string or a number at the event type's key pointer, at most 1024 bytes.",
)
BAD_ENVELOPE: Final = _rejected(
    "bad_envelope",
    422,
    Step.CHECK,
    "The event is not a valid envelope.",
    'Send {"metadata":{"id","timestamp","version"},"event_name","payload"}; '
    "docs/path-of-an-event.md lists the valid values of each.",
)
RESERVED_EVENT_NAME: Final = _rejected(
    "reserved_event_name",
    422,
    Step.CHECK,
    "The event name is reserved.",
    "Names that begin with onramp_ are reserved for Onramp: choose another.",
)
NONE_ACCEPTED: Final = _rejected(
    "none_accepted",
    422,
    Step.CHECK,
    "No event of the batch was accepted.",
    "Each entry of `results` says what is wrong with its event.",
)
NOT_FOUND: Final = _rejected(
    "not_found",
    404,
    Step.RECEIVE,
    "There is no resource at this path.",
    "POST events to /v1/events; /docs lists every path.",
)
METHOD_NOT_ALLOWED: Final = _rejected(
    "method_not_allowed",
    405,
    Step.RECEIVE,
    "The path does not support this method.",
    "Use a method of the Allow header.",
)
BAD_REQUEST: Final = _rejected(
    "bad_request",
    400,
    Step.RECEIVE,
    "The request could not be understood.",
    "Check the request against /openapi.json.",
)
HEADERS_TOO_LARGE: Final = _rejected(
    "headers_too_large",
    431,
    Step.RECEIVE,
    "The request has too many or too large headers.",
    "Send fewer and smaller headers.",
)
REQUEST_TIMEOUT: Final = _rejected(
    "request_timeout",
    408,
    Step.RECEIVE,
    "The request took too long to arrive.",
    "Send the whole request without pauses.",
)
UNKNOWN_TRANSFER_CODING: Final = _rejected(
    "unknown_transfer_coding",
    501,
    Step.RECEIVE,
    "The transfer coding is not implemented.",
    "Send the body with Content-Length or Transfer-Encoding: chunked, and compress it with Content-Encoding.",
)
KAFKA_UNAVAILABLE: Final = _waiting(
    "kafka_unavailable",
    Step.SEND,
    "Kafka did not acknowledge the event in time.",
    "Send the same event with the same id again after Retry-After seconds.",
    503,
    accepted=None,
)
KAFKA_UNREACHABLE: Final = _waiting(
    "kafka_unreachable",
    Step.SEND,
    "Kafka cannot be reached; the event was not sent.",
    "Send the same event with the same id again after Retry-After seconds.",
    503,
)
TOPIC_UNSAFE: Final = _waiting(
    "topic_unsafe",
    Step.SEND,
    "The settings of the event's topic could lose events.",
    "Ask an operator to correct the topic's settings (docs/operating.md), then send again.",
    503,
)
TOPIC_MISSING: Final = _waiting(
    "topic_missing",
    Step.SEND,
    "The event's topic does not exist, and the gateway does not create topics.",
    "Ask an operator to create the topic, or to let the gateway create topics (ONRAMP_KAFKA_CREATE_TOPICS), "
    "then send again.",
    503,
)
REGISTRY_UNREAD: Final = _waiting(
    "registry_unread",
    Step.RECEIVE,
    "The registry was not read yet, so keys and event types are unknown.",
    "Send the same event with the same id again after Retry-After seconds; the gateway's log has the reason.",
    503,
)
SCHEMA_UNUSABLE: Final = _waiting(
    "schema_unusable",
    Step.CHECK,
    "The gateway cannot use the JSON Schema of this event type, so events of the type are not accepted.",
    "Send the same event with the same id again after Retry-After seconds; an operator corrects the schema: "
    "`onramp apply` reports its faults.",
    503,
)
REGISTRY_CONFLICT: Final = _rejected(
    "registry_conflict",
    409,
    Step.CHECK,
    "The registry was changed concurrently.",
    "Read the registry in effect (`onramp export`), and apply the change again.",
)
QUOTA: Final = _waiting(
    "quota",
    Step.RECEIVE,
    "The API key has used up its quota.",
    "Send the same event with the same id again after Retry-After seconds.",
    429,
)
OVERLOADED: Final = _waiting(
    "overloaded",
    Step.RECEIVE,
    "Too many bytes are waiting for Kafka.",
    "Send the same event with the same id again after Retry-After seconds.",
    503,
)
TOO_MANY_CONNECTIONS: Final = _waiting(
    "too_many_connections",
    Step.RECEIVE,
    "The gateway has reached its limit of connections.",
    "Send the same event with the same id again after Retry-After seconds; keep few connections open.",
    503,
)
SHUTTING_DOWN: Final = _waiting(
    "shutting_down",
    Step.RECEIVE,
    "The gateway is stopping.",
    "Send the same event with the same id again; another replica will answer.",
    503,
)
INTERNAL: Final = _waiting(
    "internal",
    Step.RECEIVE,
    "The gateway failed because of an internal error.",
    "Send the same event with the same id again, and report the request_id.",
    500,
    accepted=None,
)

# --- the writer ---------------------------------------------------------------------------
_SEND_AGAIN: Final = "send the event again (docs/parked-events.md, Sending a parked event again)."
#: How an operator lands a parked event once the cause is fixed; a replayed event keeps its position on Kafka.
_AGAIN: Final = f"then replay it (`onramp errors replay`), or {_SEND_AGAIN}"
#: The fix for events refused at SORT depends on the cause, the registry or the event.
_IF_WRONG: Final = (
    "If it is wrong, replay the event into a table of the default database that its topic may address "
    f"(`--to SCHEMA.TABLE`), or correct the destination and {_SEND_AGAIN}"
)
NO_ENVELOPE: Final = _parked(
    "no_envelope",
    Step.SORT,
    "The record is neither an envelope nor a packet.",
    "Change its producer to send an envelope or a packet, or to drop the context header.",
)
NOT_A_CHANGE: Final = _parked(
    "not_a_change",
    Step.SORT,
    "The record on a source's topic is not a change of a table.",
    "Find the other writer of the topic: only the source's connector may write to it. The source's changes "
    "still land.",
)
RECORD_HEADERS_TOO_LARGE: Final = _parked(
    "record_headers_too_large",
    Step.FILTER,
    "The record's headers exceed the writer's limits.",
    "Change its producer to write the headers context and onramp-received-at as in docs/path-of-an-event.md, "
    f"and no others, then {_SEND_AGAIN}",
)
UNKNOWN_DATABASE: Final = _parked(
    "unknown_database",
    Step.SORT,
    "The destination names no configured database.",
    "If the destination is right, configure its database (ONRAMP_WRITER_DATABASES), then replay the event: "
    f'`onramp errors replay --code unknown_database --reason "it is configured"`. {_IF_WRONG}',
)
UNSUPPORTED_DESTINATION: Final = _parked(
    "unsupported_destination",
    Step.SORT,
    "The destination's type is not supported.",
    "Send to a destination of type postgres.",
)
BAD_DESTINATION: Final = _parked(
    "bad_destination",
    Step.SORT,
    "The packet's destinations cannot be read.",
    'Send "pipeline_context":{"destinations":[{"type","vanity","database","schema","table"}]}, '
    "each of them a name; docs/path-of-an-event.md lists the valid values of each.",
)
FORBIDDEN_DESTINATION: Final = _parked(
    "forbidden_destination",
    Step.SORT,
    "Packets on this topic may not address this table.",
    "If the destination is right, open its schema in the settings of its database, and grant the table "
    "to the topic (`onramp apply`), then replay the event: "
    f'`onramp errors replay --code forbidden_destination --reason "it is granted"`. {_IF_WRONG}',
)
NOT_ROUTED: Final = _parked(
    "not_routed",
    Step.SORT,
    "The replayed event's current routes do not lead to the table that it was parked for.",
    "Route its event name to that table again, or replay it into another table of the same database.",
)
AMBIGUOUS_TABLE: Final = _parked(
    "ambiguous_table",
    Step.SORT,
    "The refused destination of the replayed event is not a single table now.",
    "If the event's packet also names that table elsewhere, discard the event. Otherwise replay it into one "
    "table of the default database (`--to SCHEMA.TABLE`).",
)
UNKNOWN_TABLE: Final = _parked(
    "unknown_table",
    Step.PERSIST,
    "The database has no such table.",
    f"Correct the destination's schema and table (letter case counts), or create the table, {_AGAIN}",
)
UNSUITABLE_TABLE: Final = _parked(
    "unsuitable_table",
    Step.PERSIST,
    "The table cannot store each event exactly once.",
    f"Give the table a primary key that is not deferrable, {_AGAIN}",
)
UNKNOWN_FIELD: Final = _parked(
    "unknown_field",
    Step.PERSIST,
    "The event has a field without a writable column in the table.",
    f"Drop the field, add the column, or set the table's contract to discard unknown fields, {_AGAIN}",
)
ROW_SUPPRESSED: Final = _parked(
    "row_suppressed",
    Step.PERSIST,
    "The table accepted the row without an error and did not store it.",
    f"Look for a trigger or rule on the table that suppresses rows, {_AGAIN}",
)
DATA_REJECTED: Final = _parked(
    "data_rejected",
    Step.PERSIST,
    "The database refused the event's values.",
    "Compare the event with the table's columns (the SQLSTATE and column say where), fix one of them, "
    f"{_AGAIN}",
)
ID_REUSE: Final = _parked(
    "id_reuse",
    Step.PERSIST,
    "Another event landed under the same id.",
    "Give every event an id of its own; only a retry of the same event may repeat it.",
)
NO_PERMISSION: Final = _parked(
    "no_permission",
    Step.PERSIST,
    "The writer's role may not write this table.",
    f"Grant INSERT and SELECT on the table to the writer's role, {_AGAIN}",
)
DEAD_LETTERED: Final = _parked(
    "dead_lettered",
    Step.PERSIST,
    "The event waited for its table or event type, and an operator dead-lettered it.",
    "When the cause is fixed, replay it: `onramp errors replay`.",
)
DATABASE_RETIRED: Final = _parked(
    "database_retired",
    Step.PERSIST,
    "The event waited for a database that is no longer configured, and an operator retired it.",
    "Send it again, or discard it; when a database has that name again, replay it: `onramp errors`.",
)
INTERNAL_SORT: Final = _parked(
    "internal_sort",
    Step.SORT,
    "The writer failed while sorting the event because of an internal error.",
    f"Report the exception's type, which `detail` names, and have it fixed, {_AGAIN}",
)
INTERNAL_PERSIST: Final = _parked(
    "internal_persist",
    Step.PERSIST,
    "The writer failed while writing the event's row because of an internal error.",
    f"Report the exception's type, which `detail` names, and have it fixed, {_AGAIN}",
)
INTERNAL_WRITER: Final = _waiting(
    "internal_writer",
    Step.PERSIST,
    "The writer failed because of an unexpected internal error.",
    "Report the exception in the writer's log; waiting events land by themselves when it is fixed.",
)
DATABASE_UNAVAILABLE: Final = _waiting(
    "database_unavailable",
    Step.PERSIST,
    "The database cannot be reached or is not ready.",
    "None: the event lands by itself when the database is available again.",
)
DATABASE_UNFIT: Final = _waiting(
    "database_unfit",
    Step.PERSIST,
    "The database lacks a right, its schema onramp is of another release, or a pooler drops settings.",
    "Follow the instructions in the writer's log; the events then land by themselves.",
)
DATABASE_NEWER: Final = _waiting(
    "database_newer",
    Step.PERSIST,
    "A newer Onramp has migrated the database: this writer ends without changing it.",
    "Start the newer version again, or one after it: see docs/machines.md, Upgrade and downgrade.",
)
DATABASE_OWNED: Final = _waiting(
    "database_owned",
    Step.PERSIST,
    "The database belongs to another installation, or to another public name.",
    "See docs/operating.md, A database has another owner: its events wait for a manual decision.",
)
TABLE_BLOCKED: Final = _waiting(
    "table_blocked",
    Step.PERSIST,
    "The table accepts no rows for now, because of a lock, a quota or a statement timeout.",
    "None: the events land by themselves, in order, when the table accepts rows again.",
)
PAUSED: Final = _waiting(
    "paused",
    Step.PERSIST,
    "Too many of the event type's events are parked; the others wait.",
    "Fix the cause (`onramp errors tail --kind parked` shows it), then `onramp types resume NAME`.",
)
NOT_CONFIGURED: Final = _waiting(
    "not_configured",
    Step.PERSIST,
    "Planned or waiting events are for a database that is not configured.",
    "Configure it again under that name: see docs/operating.md, A database is renamed or removed.",
)
RECORD_TOO_LARGE: Final = _waiting(
    "record_too_large",
    Step.SEND,
    "The event with Onramp's metadata is larger than the limit of one of Onramp's own topics.",
    "Raise max.message.bytes of the topic that `detail` names; the writer then continues by itself: "
    "see docs/operating.md, An event is too large.",
)
LEDGER_GAP: Final = _waiting(
    "ledger_gap",
    Step.PERSIST,
    "The ledger is behind the range that should settle next.",
    "The database was restored or a range was lost: see docs/operating.md, A database was restored.",
)
OWN_TOPIC_MISSING: Final = _waiting(
    "own_topic_missing",
    Step.READ,
    "One of Onramp's own topics does not exist, and the writer does not create topics.",
    "Create the topic with the command in the writer's log, or let the writer create topics "
    "(ONRAMP_KAFKA_CREATE_TOPICS); it then continues by itself.",
)
OWN_TOPIC_UNSAFE: Final = _waiting(
    "own_topic_unsafe",
    Step.READ,
    "The settings of one of Onramp's own topics could lose its records.",
    "Fix the setting with the command in the writer's log; the writer then continues by itself.",
)
LAKE_UNAVAILABLE: Final = _waiting(
    "lake_unavailable",
    Step.PERSIST,
    "A table of the lake cannot be read or written now: its storage is unreachable, full or refuses access.",
    "Free space or renew the credentials if needed: the lake service repeats the batch by itself.",
)
LAKE_TABLE_HALTED: Final = _waiting(
    "lake_table_halted",
    Step.PERSIST,
    "A table of the lake was restored, replaced or damaged, or belongs to another installation or program.",
    "See docs/lake.md, A table is halted. Its topics wait on Kafka, other topics land.",
)
FENCED: Final = _waiting(
    "fenced",
    Step.PERSIST,
    "A newer writer has taken over.",
    "None: this writer ends by itself.",
)

# --- transforms -----------------------------------------------------------------------------
_MEND: Final = (
    "The header onramp-traceback has the message and the traceback. Correct the function, try it with "
    "`onramp transforms rehearse`, deploy it, then replay the event."
)
TRANSFORM_FAILED: Final = _parked(
    "transform_failed",
    Step.TRANSFORM,
    "The transform's function raised an exception.",
    _MEND,
)
TRANSFORM_BAD_OUTPUT: Final = _parked(
    "transform_bad_output",
    Step.TRANSFORM,
    "An output of the transform is not a valid event of its type.",
    "Correct the function or the output's event type; `detail` names the output and the fault. Then deploy, "
    "and replay the event.",
)
TRANSFORM_TOO_MANY_OUTPUTS: Final = _parked(
    "transform_too_many_outputs",
    Step.TRANSFORM,
    "The transform's function returned more outputs than its limit.",
    "Correct the function, or raise `limits.outputs` of the transform; then replay the event.",
)
TRANSFORM_TIMEOUT: Final = _parked(
    "transform_timeout",
    Step.TRANSFORM,
    "The transform's function exceeded its time limit.",
    "Correct the function, or raise `limits.cpu_ms` of the transform; then replay the event.",
)
TRANSFORM_CRASHED: Final = _parked(
    "transform_crashed",
    Step.TRANSFORM,
    "The process of the transform's function ended.",
    _MEND,
)
TRANSFORM_MEMORY: Final = _parked(
    "transform_memory",
    Step.TRANSFORM,
    "The transform's function exceeded its memory limit.",
    "Correct the function, or raise `limits.memory_mb` of the transform; then replay the event.",
)
TRANSFORM_OTHER_TYPE: Final = _parked(
    "transform_other_type",
    Step.TRANSFORM,
    "The transform of a replayed event reads another event type now.",
    "Restore `from` of the transform and replay the event again, or discard the event.",
)
TRANSFORM_POSITION_LOST: Final = _waiting(
    "transform_position_lost",
    Step.READ,
    "The position of a transform is outside of its source topic's log.",
    "Events between the position and the log may be lost: see docs/operating.md, A transform is paused. "
    "`onramp transforms resume NAME --accept` continues at the nearest end of the log.",
)

TRANSFORM_LOOKUP_UNREADABLE: Final = _waiting(
    "transform_lookup_unreadable",
    Step.TRANSFORM,
    "The table of a lookup cannot be read.",
    "`detail` names the lookup and the reason. The last snapshot is used until it is older than ten times "
    "`refresh_s`, then the transform's events wait on Kafka.",
)

# --- the admin service ----------------------------------------------------------------------
NOT_LOCAL: Final = _rejected(
    "not_local",
    403,
    Step.RECEIVE,
    "The admin service answers only programs on this machine.",
    "Call it as 127.0.0.1 or localhost, and not from a web page.",
)
NOT_ALLOWED: Final = _rejected(
    "not_allowed",
    403,
    Step.RECEIVE,
    "The key's role does not permit this request.",
    "Use the key of an operator with the required role, or change the role in `operators` of onramp.yaml.",
)
TOO_MANY_AT_ONCE: Final = _waiting(
    "too_many_at_once",
    Step.RECEIVE,
    "The key has too many concurrent requests.",
    "Repeat the request after Retry-After seconds, with fewer requests at once.",
    429,
)
TOO_MANY_WRONG_KEYS: Final = _waiting(
    "too_many_wrong_keys",
    Step.RECEIVE,
    "The address has sent too many wrong keys.",
    "Wait a minute, then log in with the key of an operator.",
    429,
)
FORM_REFUSED: Final = _rejected(
    "form_refused",
    403,
    Step.RECEIVE,
    "The form does not come from a page of this service.",
    "Open the page again, and send the form from there.",
)
BAD_QUERY: Final = _rejected(
    "bad_query",
    422,
    Step.RECEIVE,
    "The request has an invalid parameter.",
    "Correct every field that `errors` names; /openapi.json lists the valid values.",
)
BAD_CURSOR: Final = _rejected(
    "bad_cursor",
    400,
    Step.RECEIVE,
    "The cursor is not valid for this list.",
    "Begin again without a cursor; a cursor is valid only with the filters of its page.",
)
NOT_STORED: Final = _rejected(
    "not_stored",
    404,
    Step.RECEIVE,
    "There is no resource with this id, name or path.",
    "Find it in its list (GET /v1/events, /v1/groups or /v1/types); /openapi.json lists every path.",
)
NO_FILTER: Final = _rejected(
    "no_filter",
    400,
    Step.RECEIVE,
    "A job needs a filter.",
    "Select events by a group, a code, an event name, a destination, an id or a time.",
)
SET_CHANGED: Final = _rejected(
    "set_changed",
    409,
    Step.RECEIVE,
    "The set of events has changed since it was counted.",
    "Count it again (dry_run), check the new set, and decide again.",
)
SEGMENT_MISSING: Final = _rejected(
    "segment_missing",
    410,
    Step.PARK,
    "The file with the event's bytes is missing.",
    "Restore the file to ONRAMP_ADMIN_STORE from its backup, under the name in `detail`.",
)
SEGMENT_DAMAGED: Final = _rejected(
    "segment_damaged",
    410,
    Step.PARK,
    "The event's stored bytes have a wrong checksum: the file is damaged.",
    "Replace the file in ONRAMP_ADMIN_STORE by its backup, under the name in `detail`.",
)
BYTES_REMOVED: Final = _rejected(
    "bytes_removed",
    410,
    Step.PARK,
    "The event's bytes were removed: the event was replayed or discarded over seven days ago.",
    "None: the event's history remains available.",
)
STORE_UNAVAILABLE: Final = _waiting(
    "store_unavailable",
    Step.PARK,
    "The folder with the bytes of parked events cannot be used.",
    "Check that ONRAMP_ADMIN_STORE names a mounted folder with free space, or an accessible bucket. "
    "Meanwhile bytes remain in the control database.",
)
BAD_EDITS: Final = _rejected(
    "bad_edits",
    422,
    Step.RECEIVE,
    "A line of the edited events is invalid; no line was stored.",
    "Correct or remove the line that `detail` names: edit only the payloads in the output of `download`.",
)
BAD_FIX: Final = _rejected(
    "bad_fix",
    422,
    Step.RECEIVE,
    "The fix is invalid.",
    "Correct the step that `detail` names: docs/parked-events.md lists the valid steps.",
)
FIX_DOES_NOT_APPLY: Final = _rejected(
    "fix_does_not_apply",
    422,
    Step.RECEIVE,
    "The fix does not apply to the event's payload.",
    "Rehearse another fix, or replay these events with another one; the event is unchanged.",
)
IF_MATCH_MISSING: Final = _rejected(
    "if_match_missing",
    428,
    Step.RECEIVE,
    "The change has no If-Match header.",
    "Read the registry, the type, the group, the hold or the halt (GET), and send its ETag as If-Match; * "
    "matches any state.",
)
GROUP_CHANGED: Final = _rejected(
    "group_changed",
    412,
    Step.RECEIVE,
    "The group has changed since it was read.",
    "Read it again (GET /v1/groups/{id}), check the new state, and send the change with the new ETag.",
)
AUDIT_RUNS: Final = _rejected(
    "audit_runs",
    409,
    Step.RECEIVE,
    "An audit runs already.",
    "Wait for its report (GET /v1/audits), or cancel it.",
)
WAITING_CHANGED: Final = _rejected(
    "waiting_changed",
    412,
    Step.RECEIVE,
    "The hold or the halt has changed since it was read.",
    "Read it again (GET /v1/holds, /v1/databases or /v1/partitions), check the new state, and send the "
    "change with the new ETag.",
)
TRANSFORM_CHANGED: Final = _rejected(
    "transform_changed",
    412,
    Step.RECEIVE,
    "The state of the transform has changed since it was read.",
    "Read it again (GET /v1/transforms), check the new state, and send the change with its `state_tag`.",
)
NOT_WAITING: Final = _rejected(
    "not_waiting",
    409,
    Step.RECEIVE,
    "There is nothing that this decision would end.",
    "Read the state (GET /v1/waiting); `detail` has the present one.",
)
TYPE_HAS_PARKED: Final = _rejected(
    "type_has_parked",
    409,
    Step.RECEIVE,
    "The type has open parked events.",
    "Replay or discard them first, or use ?parked=keep: they stay parked, without the type's rules.",
)
IDEMPOTENCY_KEY_REUSED: Final = _rejected(
    "idempotency_key_reused",
    422,
    Step.RECEIVE,
    "The Idempotency-Key was used for another request.",
    "Send the same request again, or use a new key for another request.",
)
REGISTRY_CHANGED: Final = _rejected(
    "registry_changed",
    412,
    Step.RECEIVE,
    "The registry has changed since it was read.",
    "Read it again (GET /v1/registry), check the new state, and send the change with the new ETag.",
)
REGISTRY_REFUSED: Final = _rejected(
    "registry_refused",
    422,
    Step.RECEIVE,
    "The change would make the registry invalid.",
    "Correct the places that `detail`, `errors` and `findings` name (docs/registry.md). To accept undecided "
    "findings after a check, send accept=true.",
)
TOPIC_REFUSED: Final = _rejected(
    "topic_refused",
    409,
    Step.RECEIVE,
    "The topic cannot be created or changed like this.",
    "Read the topics (GET /v1/topics), and request what `detail` allows.",
)
INTERNAL_ADMIN: Final = _waiting(
    "internal_admin",
    Step.RECEIVE,
    "The admin service failed because of an internal error.",
    "Repeat the request, and report the exception in the service's log.",
    500,
)


def _table() -> Iterator[tuple[str, Fault]]:
    for value in globals().values():
        if isinstance(value, Fault):
            yield value.code, value


#: Every fault by its code.
TABLE: Final[Mapping[str, Fault]] = MappingProxyType(dict(_table()))
