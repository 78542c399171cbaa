"""Operators' decisions about groups, and refusals of operators."""

from collections.abc import Mapping
from typing import Any, Final

from psycopg2.extensions import connection

from services.admin.store.read_sql import Group, Only, group

_CHANGE: Final = """
    UPDATE onramp_admin.groups SET state = coalesce(%(state)s, state),
        assignee = CASE WHEN %(assign)s THEN %(assignee)s ELSE assignee END
    WHERE id = %(id)s
"""
_REFUSAL: Final = """
    INSERT INTO onramp_admin.acts AS a (actor, act, subject, minute)
    VALUES (%s, 'refused', %s, date_trunc('minute', now() AT TIME ZONE 'UTC'))
    ON CONFLICT (actor, minute) DO UPDATE SET events = a.events + 1
"""
_LOCK_GROUP: Final = "SELECT FROM onramp_admin.groups WHERE id = %s FOR UPDATE"


def locked_group(conn: connection, number: int, only: Only = None) -> Group | None:
    """Return one group, locked until this transaction ends."""
    with conn.cursor() as cur:
        cur.execute(_LOCK_GROUP, (number,))
    return group(conn, number, only)


def change_group(conn: connection, number: int, changed: Mapping[str, Any]) -> None:
    """Set the `state` or the `assignee` of a group, whichever `changed` has."""
    given = {"state": changed.get("state"), "assign": "assignee" in changed, "id": number}
    with conn.cursor() as cur:
        cur.execute(_CHANGE, given | {"assignee": changed.get("assignee")})


def record_refusal(conn: connection, actor: str, subject: str) -> None:
    """Log the refusal of an operator: one row a minute, with the first subject and the count."""
    with conn.cursor() as cur:
        cur.execute(_REFUSAL, (actor, subject))
