"""Sets of events: filters up to one event, and which of them a job of a kind can change."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.store.read_sql import FILTERS
from services.ops.parked.parked_events import NO_TOPIC_ID

#: How long a discard can be undone.
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
#: It has bytes, its database is one that is configured (what was refused has none: the default one's writer
#: sorts it again), and its record says of which topic it is: the writer counts by that, and a record of
#: another client may lack it.
_CAN_BE_REPLAYED: Final = f"""
    e.topic_id <> '{NO_TOPIC_ID}' AND e.sha256 IS NOT NULL AND NOT e.gone
    AND EXISTS (SELECT FROM unnest(%(databases)s::text[]) d WHERE starts_with(e.destination, d || '.')
        OR e.destination = '' OR starts_with(e.destination, '/'))
"""


class Step(NamedTuple):
    """The states that a job leads from and to, and what else must hold of an event."""

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
    """The destination of parked events (empty, or a pointer into the packet: refused), and what they are."""

    destination: str
    topic: str = ""
    event_name: str | None = None


class EventSet(NamedTuple):
    """Events that match all `filters`, up to the id `upto`: what is kept later is not among them."""

    filters: Mapping[str, Any]
    upto: int

    def condition(self) -> tuple[sql.Composable, dict[str, Any]]:
        """Return it as SQL with its parameters."""
        given = {f"f_{name}": wanted for name, wanted in self.filters.items()}
        parts = [sql.SQL(FILTERS[name].replace("%s", f"%(f_{name})s")) for name in self.filters]
        return sql.SQL(" AND ").join([sql.SQL("e.id <= %(upto)s"), *parts]), given | {"upto": self.upto}


def frozen(conn: connection, filters: Mapping[str, Any], upto: int | None = None) -> EventSet:
    """Return the set of what is kept now (or was, up to the id `upto`); its last id is one that is seen."""
    seen = EventSet({n: v for n, v in filters.items() if n == "only"}, _LAST_ID)
    where, values = seen.condition()
    ((last,),) = rows(conn, sql.SQL(_LAST).format(where), values)
    return EventSet(filters, min(upto or last, last))


def count(conn: connection, kind: str, events: EventSet, databases: Iterable[str] = ()) -> int:
    """Count the events of a set that a job of this kind would change now, where these are the `databases`."""
    of_set, values = events.condition()
    of_kind, more = condition(kind, databases)
    statement = sql.SQL(_COUNT).format(set=of_set, condition=of_kind)
    ((found,),) = rows(conn, statement, values | more)
    return int(found)


def open_events(conn: connection, event_name: str) -> int:
    """Count the events of a name that are parked, and about which nothing is decided."""
    return count(conn, "discard", frozen(conn, {"event_name": event_name}))


def parked_for(conn: connection, events: EventSet) -> list[ParkedFor]:
    """Return what the events of a set were parked for, each once."""
    of_set, values = events.condition()
    return [ParkedFor(*row) for row in rows(conn, sql.SQL(_PARKED_FOR).format(set=of_set), values)]


def has_changed(conn: connection, events: EventSet, since: datetime) -> bool:
    """Whether the state of any event of a set has changed since then, also if it changed back."""
    of_set, values = events.condition()
    ((found,),) = rows(conn, sql.SQL(_CHANGED).format(set=of_set), values | {"since": since})
    return bool(found)


def condition(kind: str, databases: Iterable[str]) -> tuple[sql.Composable, dict[str, Any]]:
    """Return which events a job of this kind can change, as SQL with its parameters."""
    step = STEPS[kind]
    values = {"from": step.start, "databases": list(databases)}
    return sql.SQL(f"e.state = %(from)s AND {step.holds}"), values


def rows(conn: connection, statement: sql.Composable, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    """Return what a statement finds."""
    with conn.cursor() as cur:
        cur.execute(statement, values)
        return cur.fetchall()
