"""Sets of events: filters up to one event, and the events that a kind of job can change."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.store.read_sql import FILTERS
from services.ops.parked.fingerprint import OTHERS
from services.ops.parked.parked_events import NO_TOPIC_ID
from shared import wire

#: Days during which a discard can be undone.
UNDO_DAYS: Final = 7
_LAST_ID: Final = 2**63 - 1
_LAST: Final = "SELECT coalesce(max(id), 0) FROM onramp_admin.parked e WHERE {}"
_COUNT: Final = "SELECT count(*) FROM onramp_admin.events e WHERE {set} AND {condition}"
_PARKED_FOR: Final = """
    SELECT DISTINCT e.destination, e.topic, e.event_name FROM onramp_admin.events e WHERE {set}
"""
_CHANGED: Final = """
    SELECT EXISTS (SELECT FROM onramp_admin.events e WHERE {set} AND e.changed_at > %(since)s)
"""
#: A replayable event has bytes, and a record with its topic's id: the writer counts by that id, which a
#: record of another client may lack.
_HAS_BYTES: Final = f"e.topic_id <> '{NO_TOPIC_ID}' AND e.sha256 IS NOT NULL AND NOT e.gone"
#: Its database is configured.  A refused event has none: the default one's writer routes it again.
_HAS_DATABASE: Final = """
    EXISTS (SELECT FROM unnest(%(databases)s::text[]) d WHERE starts_with(e.destination, d || '.')
        OR e.destination = '' OR starts_with(e.destination, '/'))
"""
_OF_TRANSFORM: Final = f"starts_with(e.destination, '{wire.TRANSFORM_DESTINATION}')"
#: A table has refused it: the writer answers.
OF_TABLE: Final = f"NOT {_OF_TRANSFORM}"
_CAN_BE_REPLAYED: Final = f"{_HAS_BYTES} AND ({_OF_TRANSFORM} OR {_HAS_DATABASE})"
#: The group of causes beyond the limit has no destination.
_HAS_TRANSFORMED: Final = f"""
    SELECT EXISTS (SELECT FROM onramp_admin.groups
        WHERE starts_with(destination, '{wire.TRANSFORM_DESTINATION}') OR code = '{OTHERS.code}')
"""  # noqa: S608 - our own words


class Step(NamedTuple):
    """A job's initial and final states, and further conditions on an event."""

    start: str
    to: str
    holds: str = "true"
    attempts: int = 0


STEPS: Final = {
    "discard": Step("open", "discarded"),
    "restore": Step("discarded", "open", f"e.changed_at > now() - interval '{UNDO_DAYS} days'"),
    "replay": Step("open", "replaying", _CAN_BE_REPLAYED, attempts=1),
    "rehearse": Step("open", "open", _CAN_BE_REPLAYED),
}


class ParkedFor(NamedTuple):
    """The destination of parked events (empty or a pointer into the packet if refused), and their names."""

    destination: str
    topic: str = ""
    event_name: str | None = None


class EventSet(NamedTuple):
    """Events that match all `filters`, up to the id `upto`, which excludes later events."""

    filters: Mapping[str, Any]
    upto: int

    def condition(self) -> tuple[sql.Composable, dict[str, Any]]:
        """Return the condition as SQL with its parameters."""
        given = {f"f_{name}": wanted for name, wanted in self.filters.items()}
        parts = [sql.SQL(FILTERS[name].replace("%s", f"%(f_{name})s")) for name in self.filters]
        return sql.SQL(" AND ").join([sql.SQL("e.id <= %(upto)s"), *parts]), given | {"upto": self.upto}


def frozen(conn: connection, filters: Mapping[str, Any], upto: int | None = None) -> EventSet:
    """Return the set of events stored now (or up to the id `upto`); its last id is a visible one."""
    seen = EventSet({n: v for n, v in filters.items() if n == "only"}, _LAST_ID)
    where, values = seen.condition()
    ((last,),) = rows(conn, sql.SQL(_LAST).format(where), values)
    return EventSet(filters, min(upto or last, last))


def count(conn: connection, kind: str, events: EventSet, databases: Iterable[str] = ()) -> int:
    """Count the events of a set that a job of this kind would change now, given the `databases`."""
    of_set, values = events.condition()
    of_kind, more = condition(kind, databases)
    statement = sql.SQL(_COUNT).format(set=of_set, condition=of_kind)
    ((found,),) = rows(conn, statement, values | more)
    return int(found)


def open_events(conn: connection, event_name: str) -> int:
    """Count the open parked events of a name."""
    return count(conn, "discard", frozen(conn, {"event_name": event_name}))


def parked_for(conn: connection, events: EventSet) -> list[ParkedFor]:
    """Return the distinct destinations and names of the events of a set."""
    of_set, values = events.condition()
    return [ParkedFor(*row) for row in rows(conn, sql.SQL(_PARKED_FOR).format(set=of_set), values)]


def has_transformed(conn: connection) -> bool:
    """Return whether a transform may have parked events."""
    ((found,),) = rows(conn, sql.SQL(_HAS_TRANSFORMED), {})
    return bool(found)


def has_changed(conn: connection, events: EventSet, since: datetime) -> bool:
    """Return whether the state of any event of a set has changed since then, even if it changed back."""
    of_set, values = events.condition()
    ((found,),) = rows(conn, sql.SQL(_CHANGED).format(set=of_set), values | {"since": since})
    return bool(found)


def condition(kind: str, databases: Iterable[str]) -> tuple[sql.Composable, dict[str, Any]]:
    """Return the condition on events that a job of this kind can change, with its parameters."""
    step = STEPS[kind]
    values = {"from": step.start, "databases": list(databases)}
    return sql.SQL(f"e.state = %(from)s AND {step.holds}"), values


def rows(conn: connection, statement: sql.Composable, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a statement."""
    with conn.cursor() as cur:
        cur.execute(statement, values)
        return cur.fetchall()
