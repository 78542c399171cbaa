"""The last probe: an event goes in at the gateway and must come out as a row.

Its type is reserved and excluded from all counts.
"""

import uuid
from collections.abc import Callable
from typing import Any, Final

import psycopg2

from clients.python.onramp_client import ACCEPTED, REJECTED, Onramp
from shared.wire import PROBE_EVENT
from stack.errors import StackError
from stack.gateway_errors import unavailable

_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.2


def post_probe(gateway: str, api_key: str, give_up: Callable[[], bool]) -> str:
    """Send one probe event and return its id; `give_up` tells that waiting is pointless.

    Raises:
        StackError: it was rejected.
        UnavailableError: there was no verdict in time, or `give_up` said so.
    """
    event_id = f"probe-{uuid.uuid4()}"
    settled: list[tuple[str, str, dict[str, Any]]] = []
    onramp = Onramp(gateway, api_key, give_up_seconds=_SECONDS, on_settled=lambda *each: settled.append(each))
    onramp.send(PROBE_EVENT, {"sent_by": "onramp up"}, id=event_id)
    while not onramp.flush(_POLL_SECONDS) and not give_up():
        pass
    onramp.close(0)
    _, outcome, answer = settled[0]
    if outcome == REJECTED:
        raise StackError(f"The gateway rejected the probe event: {answer}.")
    if outcome != ACCEPTED:
        raise unavailable(gateway, answer)
    return event_id


def has_landed(dsn: str, event_id: str) -> Callable[[], bool]:
    """Return a check whether the probe's row exists."""

    def ask() -> bool:
        connection = psycopg2.connect(dsn, application_name="onramp-probe")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT to_regclass(%s)", (f"events.{PROBE_EVENT}",))
                row = cursor.fetchone()
                if row is None or row[0] is None:
                    return False  # The writer creates the table with the first event.
                cursor.execute(f"SELECT 1 FROM events.{PROBE_EVENT} WHERE _id = %s", (event_id,))  # noqa: S608 - our own constant
                return cursor.fetchone() is not None
        finally:
            connection.close()

    return ask
