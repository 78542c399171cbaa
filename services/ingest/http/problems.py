"""Errors as sent to clients: RFC 9457 problem+json and Retry-After, from the error table.

A problem never has a value of the payload: `detail` and `pointer` say where and what kind, the client has
the rest.  `accepted` tells a producer whether it must send the event again.
"""

from typing import Any, Final

import msgspec

from services.ingest.asgi import Answer, Header
from shared.errors import UNAUTHENTICATED, OnrampError

MEDIA_TYPE: Final = b"application/problem+json"
#: orjson's bytes use up to twice their length while they live.
_ENCODE: Final = msgspec.json.Encoder().encode


def problem(error: OnrampError) -> dict[str, Any]:
    """Return the members of the problem document for `error`."""
    fault = error.fault
    faults: list[dict[str, str]] | None = getattr(error, "faults", None)
    document = {
        "type": f"/errors/{fault.code}",
        "title": fault.title,
        "status": fault.status or 500,
        "detail": error.detail,
        "pointer": error.pointer,
        "fix": fault.fix,
        "accepted": error.accepted,
        "step": error.step,
    }
    if faults is not None:
        document["errors"] = faults
    return document


def short_problem(error: OnrampError) -> dict[str, Any]:
    """Return the members that programs evaluate, without the texts."""
    fault = error.fault
    return {
        "type": f"/errors/{fault.code}",
        "status": fault.status or 500,
        "accepted": error.accepted,
        "step": error.step,
    }


def answer(
    error: OnrampError,
    request_id: str,
    retry_after: int,
    *,
    results: list[dict[str, Any]] | None = None,
) -> Answer:
    """Return the answer to a request that failed with `error`.

    Some errors may pass with a retry: their answer asks to wait for `retry_after` seconds
    (`ONRAMP_INGEST_RETRY_AFTER_SECONDS`), or for as long as the error itself says.
    """
    document = problem(error) | {"request_id": request_id}
    if results is not None:
        document["results"] = results
    more: list[Header] = []
    if error.fault.retry:
        more.append(retry_after_header(getattr(error, "retry_after", retry_after)))
    if error.fault is UNAUTHENTICATED:
        more.append((b"www-authenticate", b"Bearer"))
    return Answer(document["status"], MEDIA_TYPE, _ENCODE(document), more)


def retry_after_header(seconds: int) -> Header:
    """Return the Retry-After header for this number of seconds."""
    return (b"retry-after", b"%d" % seconds)
