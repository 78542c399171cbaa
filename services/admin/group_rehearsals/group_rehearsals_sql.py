"""Rounds of group rehearsals: the events that are rehearsed, and the writer's answers.

A round is stored before its events are rehearsed, and its answers are stored with its end: a killed process
leaves a round that the next one continues.  A round is not a job: no operator has started it, it changes
nothing, and 10,000 groups would be as many jobs each hour.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Self
from uuid import uuid4

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.admin.attempts import AttemptState, PendingAttempts, destination_named
from services.admin.segments.folder import Segments
from services.admin.store import rehearsals_sql, results_sql
from services.admin.store.bytes_sql import load
from services.admin.store.control_sql import connect, prepare, translated
from services.admin.store.rehearsals_sql import Question
from services.admin.store.results_sql import result_of
from services.admin.store.sets_sql import OF_TABLE, condition, rows
from services.admin.store.staging_sql import COLUMNS, attempt_of
from shared import failpoints, wire
from shared.errors import InfrastructureError

#: Events that are rehearsed of one group: the last ones that a replay would take.
EVENTS: Final = 10
#: Groups of one round.  Its events are one page of the writer, which then takes an operator's next page.
AT_ONCE: Final = 20
#: Interval between rehearsals of a group; shorter if its database or the writer did not answer.
AGAIN: Final = "1 hour"
_SOONER: Final = "5 minutes"
#: A writer without an answer for so long counts as down.
_PATIENCE: Final = "2 minutes"
_STATEMENT_MS: Final = 60_000
#: Advisory lock of the one scheduler; any number without another use.
_LOCK: Final = 7_203_155_020
_NONE: Final = "none of its open events can be replayed"
_SILENT: Final = "the writer has not answered"
#: The oldest rehearsal first.  `moves` tells whether an open event exists: a search could read a million.
#: Events of transforms are rehearsed on request only: a function may be expensive.
_DUE: Final = f"""
    SELECT g.id FROM onramp_admin.groups g
        LEFT JOIN onramp_admin.group_rehearsals l ON l.group_id = g.id
        LEFT JOIN (
            SELECT group_id, sum(events) AS events FROM onramp_admin.moves WHERE state = 'open' GROUP BY 1
        ) m ON m.group_id = g.id
    WHERE g.state IN ('open', 'acknowledged') AND g.events + coalesce(m.events, 0) > 0
        AND NOT starts_with(coalesce(g.destination, ''), '{wire.TRANSFORM_DESTINATION}')
        AND (l.group_id IS NULL OR l.next_at <= now() OR l.registry <> %(registry)s)
    ORDER BY l.began_at NULLS FIRST, g.id LIMIT %(most)s
"""  # noqa: S608 - our own words
_LAST: Final = f"""
    SELECT g.id, coalesce(array_agg(e.id), '{{{{}}}}') FROM unnest(%(groups)s::bigint[]) g (id), LATERAL (
        SELECT e.id FROM onramp_admin.events e
        WHERE e.group_id = g.id AND {{}} AND {OF_TABLE} ORDER BY e.id DESC LIMIT %(most)s
    ) e GROUP BY 1
"""  # noqa: S608 - our own words
_BEGIN: Final = """
    INSERT INTO onramp_admin.group_rehearsals
        (group_id, round, event_ids, registry, began_at, next_at, waits) VALUES %s
    ON CONFLICT (group_id) DO UPDATE SET round = excluded.round, event_ids = excluded.event_ids,
        registry = excluded.registry, began_at = now(), next_at = excluded.next_at, waits = excluded.waits
"""
_BEGUN: Final = f"(%s, %s, %s, %s, now(), now() + interval '{AGAIN}', %s)"
_UNDER_WAY: Final = f"""
    SELECT group_id, round::text, event_ids, began_at < now() - interval '{_PATIENCE}'
    FROM onramp_admin.group_rehearsals WHERE round IS NOT NULL ORDER BY round, group_id
"""  # noqa: S608 - our own numbers
_EVENTS: Final = f"SELECT {COLUMNS} FROM onramp_admin.events e WHERE e.id = ANY (%(ids)s)"  # noqa: S608 - our own words
_ANSWERED: Final = """
    UPDATE onramp_admin.group_rehearsals
    SET round = NULL, answered_at = now(), waits = NULL, events = %(events)s,
        would_land = %(would_land)s, why = %(why)s::json
    WHERE group_id = %(group)s
"""
_WAITS: Final = f"""
    UPDATE onramp_admin.group_rehearsals
    SET round = NULL, waits = %(waits)s, next_at = now() + interval '{_SOONER}'
    WHERE group_id = %(group)s
"""  # noqa: S608 - our own numbers


class _RoundGroup(NamedTuple):
    """One group of a round: its rehearsed events, and whether their answers are overdue."""

    group: int
    round: str
    events: Sequence[int]
    is_late: bool


@dataclass(slots=True)
class _Answers:
    """Answers by event, and the reasons of missing ones."""

    states: dict[int, AttemptState] = field(default_factory=dict)
    waits: dict[int, str] = field(default_factory=dict)
    #: Databases that answered.
    reached: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RehearsalSession:
    """The scheduler's connection.  Close it after a method has raised `InfrastructureError`."""

    conn: connection
    databases: Mapping[str, str]
    segments: Segments | None = None

    @classmethod
    def open(cls, dsn: str, databases: Mapping[str, str], segments: Segments | None = None) -> Self | None:
        """Connect and take the scheduler's lock; return None while another replica has it."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        is_ours = False
        try:
            with translated(), conn, conn.cursor() as cur:
                prepare(conn)
                cur.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
                is_ours = cur.fetchone() == (True,)
        finally:
            if not is_ours:
                conn.close()
        return cls(conn, databases, segments) if is_ours else None

    def close(self) -> None:
        """Close the connection, which releases the lock."""
        self.conn.close()

    def begin(self, registry: str, limit: int = AT_ONCE) -> int:
        """Begin a round of the due groups under the registry of this digest; return their number."""
        with translated(), self.conn:
            groups = [n for (n,) in rows(self.conn, sql.SQL(_DUE), {"registry": registry, "most": limit})]
            if not groups:
                return 0
            of_kind, values = condition("rehearse", self.databases)
            values |= {"groups": groups, "most": EVENTS}
            events = dict(rows(self.conn, sql.SQL(_LAST).format(of_kind), values))
            number = str(uuid4())
            begun = [
                (
                    n,
                    number if n in events else None,
                    events.get(n, []),
                    registry,
                    None if n in events else _NONE,
                )
                for n in groups
            ]
            with self.conn.cursor() as cur:
                execute_values(cur, _BEGIN, begun, template=_BEGUN)
        failpoints.reach("admin.rehearsal_begun")
        return len(groups)

    def go_on(self) -> bool:
        """Stage a round's events or store their answers; return whether a round is in progress."""
        with translated(), self.conn:
            asked = [_RoundGroup(*row) for row in rows(self.conn, sql.SQL(_UNDER_WAY), {})]
            round_ = [each for each in asked if each.round == asked[0].round]
            if not round_:
                return False
            answers = self._ask(round_)
            ended = [of for of in round_ if _is_over(of, answers)]
            if len(ended) < len(round_):
                return True
            for name in answers.reached:
                rehearsals_sql.forget(destination_named(self.databases, name), round_[0].round)
            with self.conn.cursor() as cur:
                for each in round_:
                    cur.execute(*_written(each, answers))
        return True

    def _ask(self, asked: Sequence[_RoundGroup]) -> _Answers:
        answers = _Answers()
        ids = [event for each in asked for event in each.events]
        attempts = [attempt_of(row) for row in rows(self.conn, sql.SQL(_EVENTS), {"ids": ids})]
        question = Question(asked[0].round, None, False)

        loader = partial(load, self.conn, self.segments)
        pending = PendingAttempts(self.databases, attempts)
        for name, some in pending:
            try:
                destination = destination_named(self.databases, name)
                found = pending.without_routed(rehearsals_sql.ask(destination, question, some, loader))
            except InfrastructureError as error:
                answers.waits |= {attempt.id: error.detail for attempt in some}
                continue
            answers.reached.append(name)
            answers.states |= {f.id: f for f in found if f.outcome is not None}
        return answers


def _is_over(asked: _RoundGroup, answers: _Answers) -> bool:
    """Return whether all its events have answers, or cannot have any for now."""
    return asked.is_late or all(n in answers.states or n in answers.waits for n in asked.events)


def _written(asked: _RoundGroup, answers: _Answers) -> tuple[str, dict[str, Any]]:
    """Return the statement that ends a group's part of a round, and its parameters."""
    unknown = [n for n in asked.events if n not in answers.states]
    if unknown:
        return _WAITS, {"group": asked.group, "waits": answers.waits.get(unknown[0], _SILENT)}
    would_land, why = _counted(answers.states[n] for n in asked.events)
    said = {"group": asked.group, "events": len(asked.events), "would_land": would_land}
    return _ANSWERED, said | {"why": orjson.dumps(why).decode().replace("\\u0000", "")}


def _counted(found: Iterable[AttemptState]) -> tuple[int, list[dict[str, Any]]]:
    """Return how many would land, and the outcomes of the others."""
    results = Counter(result_of(each) for each in found)
    others = [(key, n) for key, n in results.most_common() if key[0] != results_sql.LANDED]
    why = [{"outcome": outcome, "reason": reason, "events": n} for (outcome, reason), n in others]
    return results.total() - sum(n for _, n in others), why
