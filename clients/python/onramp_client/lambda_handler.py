"""An AWS Lambda that forwards the records of SQS or Kinesis, and returns when each has its verdict.

As the Lambda's handler name `onramp_client.lambda_handler.handler`, set ONRAMP_URL, ONRAMP_API_KEY
and ONRAMP_EVENT_NAME, and switch on ReportBatchItemFailures; or make one of your own:

    handler = handler_for("order_placed", url="https://…", key="…", on_refused=to_my_bucket)

Ids and times are the record's own, so that a record which AWS sends again is the same event.
"""

import base64
import contextlib
import json
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from .client import Onramp
from .events import ACCEPTED, REJECTED, QueueFullError, envelope

_log: Final = logging.getLogger("onramp_client")
#: For the answer and Python's own end, of the time that Lambda leaves us.
_MARGIN_SECONDS: Final = 3.0
_WITHOUT_CLOCK_SECONDS: Final = 20.0

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
#: Takes a record that can never be accepted, and the reason; what it raises leaves the record to AWS.
OnRefused = Callable[[dict[str, Any], dict[str, Any]], None]


Verdict = tuple[str, dict[str, Any]]


class _Record(NamedTuple):
    """What both kinds of records have in common; `item` is what AWS calls the record in answers."""

    given: dict[str, Any]
    id: str
    item: str
    milliseconds: float
    is_of_a_stream: bool

    def payload(self) -> dict[str, Any]:
        """Its JSON object.

        Raises:
            ValueError, RecursionError: it has none.
        """
        content = (
            base64.b64decode(self.given["kinesis"]["data"]) if self.is_of_a_stream else self.given["body"]
        )
        document = json.loads(content)
        if not isinstance(document, dict):
            raise ValueError("the record is JSON, and no object")  # noqa: TRY004 - its value
        return document


def handler_for(
    event_name: str,
    url: str,
    key: str | None = None,
    *,
    version: str = "1",
    on_refused: OnRefused | None = None,
    **options: Any,
) -> Handler:
    """A Lambda's handler that sends each record's JSON object as the payload of an `event_name`.

    A record that has no verdict when time runs out is reported, and AWS sends it again.  One that
    can never be accepted goes to `on_refused`.  Without that, SQS is told of it, so that the queue's
    redrive policy sets it aside, and Kinesis is not, because it would hold up its shard: it is logged.

    Args:
        event_name: what the events are called.
        url: the gateway.
        key: the API key.
        version: `metadata.version` of the events.
        on_refused: takes the records that can never be accepted.
        options: of `Onramp`.
    """

    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        verdicts: dict[str, Verdict] = {}

        def settled(event_id: str, outcome: str, said: dict[str, Any]) -> None:
            verdicts[event_id] = (outcome, said)

        records = [_record(each) for each in event["Records"]]
        onramp = Onramp(url, key, on_settled=settled, **options)
        try:
            for record in records:
                verdicts |= _sent(onramp, record, event_name, version, _seconds(context))
        finally:
            onramp.close(_seconds(context))
        failed = [record for record in records if _is_left(record, verdicts.get(record.id), on_refused)]
        return {"batchItemFailures": [{"itemIdentifier": record.item} for record in failed]}

    return handle


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The handler that the environment describes."""
    made = handler_for(
        os.environ["ONRAMP_EVENT_NAME"], os.environ["ONRAMP_URL"], os.environ.get("ONRAMP_API_KEY")
    )
    return made(event, context)


def _sent(onramp: Onramp, record: _Record, name: str, version: str, seconds: float) -> dict[str, Verdict]:
    """Send a record; returns its verdict if it has one already, because it can never be an event."""
    moment = datetime.fromtimestamp(record.milliseconds / 1000, UTC)
    try:
        body = envelope(name, record.payload(), event_id=record.id, timestamp=moment, version=version)
    except (ValueError, TypeError, RecursionError) as error:
        return {record.id: (REJECTED, {"detail": f"the record is no JSON object: {type(error).__name__}"})}
    with contextlib.suppress(QueueFullError):  # Then it has no verdict, and AWS sends it again.
        onramp.send_bytes(record.id, body, block_seconds=seconds)
    return {}


def _is_left(record: _Record, verdict: Verdict | None, on_refused: OnRefused | None) -> bool:
    """Whether AWS is to keep the record."""
    outcome, said = verdict or ("", {})
    if outcome != REJECTED:
        return outcome != ACCEPTED
    if on_refused is None:
        _log.error("record %s can never be an event: %s", record.item, said.get("detail"))
        return not record.is_of_a_stream
    try:
        on_refused(record.given, said)
    except Exception as error:  # noqa: BLE001 - whatever it is, the record is not taken over
        _log.error("on_refused raised %s: record %s is left to AWS", type(error).__name__, record.item)
        return True
    return False


def _record(given: dict[str, Any]) -> _Record:
    if (stream := given.get("kinesis")) is not None:
        milliseconds = float(stream["approximateArrivalTimestamp"]) * 1000
        return _Record(given, given["eventID"], stream["sequenceNumber"], milliseconds, True)
    if "messageId" not in given:
        raise ValueError(f"a record of {given.get('eventSource')!r} is neither of SQS nor of Kinesis")
    sent = float(given.get("attributes", {}).get("SentTimestamp", 0))
    return _Record(given, given["messageId"], given["messageId"], sent, False)


def _seconds(context: Any) -> float:
    """What is left of the Lambda's time."""
    if context is None:
        return _WITHOUT_CLOCK_SECONDS
    return max(0.0, float(context.get_remaining_time_in_millis()) / 1000 - _MARGIN_SECONDS)
