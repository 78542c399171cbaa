"""The last probe: an event goes in at the gateway and must come out as a row.

Its type is reserved and stands outside all counts.
"""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus

import orjson
import psycopg2

from shared.wire import PROBE_EVENT
from stack.errors import StackError
from stack.posting import Poster


def post_probe(gateway: str, api_key: str, give_up: Callable[[], bool]) -> str:
    """Send one probe event and return its id; `give_up` tells that waiting is pointless.

    Raises:
        StackError: it was not accepted.
    """
    event_id = f"probe-{uuid.uuid4()}"
    envelope = {
        "metadata": {"id": event_id, "timestamp": datetime.now(UTC).isoformat(), "version": "1"},
        "event_name": PROBE_EVENT,
        "payload": {"sent_by": "onramp up"},
    }
    poster = Poster(gateway, api_key=api_key)
    try:
        reply = poster.post_patiently(orjson.dumps(envelope), seconds=30, give_up=give_up)
    finally:
        poster.close()
    if reply.status != HTTPStatus.ACCEPTED:
        raise StackError(f"The gateway refused the probe event: {reply.status} {reply.document}.")
    return event_id


def has_landed(dsn: str, event_id: str) -> Callable[[], bool]:
    """Return the question whether the probe's row is there, to be asked until it is."""

    def ask() -> bool:
        connection = psycopg2.connect(dsn, application_name="onramp-probe")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT to_regclass(%s)", (f"events.{PROBE_EVENT}",))
                row = cursor.fetchone()
                if row is None or row[0] is None:
                    return False  # The table is made on first sight of the event.
                cursor.execute(f"SELECT 1 FROM events.{PROBE_EVENT} WHERE _id = %s", (event_id,))  # noqa: S608 - our own constant
                return cursor.fetchone() is not None
        finally:
            connection.close()

    return ask
