"""Drafts of event types: the input of the wizard, which outlasts a restart and the browser's Back button."""

from typing import Any, Final

import orjson
from psycopg2.extensions import connection

from shared.errors import NOT_STORED, UserError

_DROP_OLD: Final = "DELETE FROM onramp_admin.drafts WHERE at < now() - interval '24 hours'"
_ADD: Final = "INSERT INTO onramp_admin.drafts (actor, document) VALUES (%s, %s) RETURNING id::text"
_READ: Final = "SELECT document FROM onramp_admin.drafts WHERE id::text = %s AND actor = %s"
_SAVE: Final = "UPDATE onramp_admin.drafts SET document = %s, at = now() WHERE id::text = %s AND actor = %s"


def add(conn: connection, actor: str, document: dict[str, Any]) -> str:
    """Store a draft; return its id."""
    with conn.cursor() as cur:
        cur.execute(_DROP_OLD)
        cur.execute(_ADD, (actor, orjson.dumps(document).decode()))
        ((number,),) = cur.fetchall()
        return str(number)


def read(conn: connection, actor: str, number: str) -> dict[str, Any]:
    """Return a draft of an operator.  Raises `UserError` NOT_STORED."""
    found = None
    if "\0" not in number:  # which no text of Postgres has
        with conn.cursor() as cur:
            cur.execute(_READ, (number, actor))
            found = cur.fetchone()
    if found is None:
        raise UserError(NOT_STORED, "there is no draft of this id: drafts are stored for 24 hours")
    return dict(orjson.loads(found[0]))


def save(conn: connection, actor: str, number: str, document: dict[str, Any]) -> None:
    """Replace a draft of an operator."""
    with conn.cursor() as cur:
        cur.execute(_SAVE, (orjson.dumps(document).decode(), number, actor))
