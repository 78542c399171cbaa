"""An AWS Lambda that forwards the records of SQS or Kinesis, and returns when each has its verdict.

Set the Lambda's handler to `onramp_client.lambda_handler.handler`, set ONRAMP_URL, ONRAMP_API_KEY
and ONRAMP_EVENT_NAME, and switch on ReportBatchItemFailures; or create a custom handler:

    handler = handler_for("order_placed", url="https://…", key="…", on_refused=to_my_bucket)

Ids and times come from the record, so that a record that AWS sends again is the same event.
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
#: Seconds of the Lambda's time reserved for its answer and Python's exit.
_MARGIN_SECONDS: Final = 3.0
_WITHOUT_CLOCK_SECONDS: Final = 20.0

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
#: Receives a record that can never be accepted, and the reason; if it raises, the record stays with AWS.
OnRefused = Callable[[dict[str, Any], dict[str, Any]], None]


Verdict = tuple[str, dict[str, Any]]


class _Record(NamedTuple):
    """The common fields of both kinds of records; `item` is the record's identifier in answers to AWS."""

    raw: dict[str, Any]
    id: str
    item: str
    milliseconds: float
    is_of_a_stream: bool

    def payload(self) -> dict[str, Any]:
        """Return the record's JSON object.

        Raises:
            ValueError, RecursionError: its content is not a JSON object.
        """
        content = base64.b64decode(self.raw["kinesis"]["data"]) if self.is_of_a_stream else self.raw["body"]
        document = json.loads(content)
        if not isinstance(document, dict):
            raise ValueError("the record is JSON, but not an object")  # noqa: TRY004 - its value
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
    """Return a Lambda handler that sends each record's JSON object as the payload of an event.

    A record without a verdict when time runs out is reported, and AWS sends it again. A record that
    can never be accepted goes to `on_refused`. Without `on_refused` it is reported to SQS, so that the
    queue's
    redrive policy moves it, and logged for Kinesis, where a report would block its shard.

    Args:
        event_name: the events' name.
        url: the gateway's address.
        key: the API key.
        version: `metadata.version` of the events.
        on_refused: called with each record that can never be accepted and its problem.
        options: options of `Onramp`.
    """

    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        verdicts: dict[str, Verdict] = {}

        def settled(event_id: str, outcome: str, document: dict[str, Any]) -> None:
            verdicts[event_id] = (outcome, document)

        records = [_record(each) for each in event["Records"]]
        onramp = Onramp(url, key, on_settled=settled, **options)
        try:
            for record in records:
                verdicts |= _send(onramp, record, event_name, version, _seconds(context))
        finally:
            onramp.close(_seconds(context))
        failed = [record for record in records if _is_failed(record, verdicts.get(record.id), on_refused)]
        return {"batchItemFailures": [{"itemIdentifier": record.item} for record in failed]}

    return handle


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle records as configured by the environment variables."""
    handle = handler_for(
        os.environ["ONRAMP_EVENT_NAME"], os.environ["ONRAMP_URL"], os.environ.get("ONRAMP_API_KEY")
    )
    return handle(event, context)


def _send(onramp: Onramp, record: _Record, name: str, version: str, seconds: float) -> dict[str, Verdict]:
    """Queue a record; return its verdict if it has one already, because it can never be an event."""
    timestamp = datetime.fromtimestamp(record.milliseconds / 1000, UTC)
    try:
        body = envelope(name, record.payload(), event_id=record.id, timestamp=timestamp, version=version)
    except (ValueError, TypeError, RecursionError) as error:
        return {record.id: (REJECTED, {"detail": f"the record is not a JSON object: {type(error).__name__}"})}
    with contextlib.suppress(QueueFullError):  # Without a verdict AWS sends the record again.
        onramp.send_bytes(record.id, body, block_seconds=seconds)
    return {}


def _is_failed(record: _Record, verdict: Verdict | None, on_refused: OnRefused | None) -> bool:
    """Return whether to report the record to AWS, which then retains it."""
    outcome, document = verdict or ("", {})
    if outcome != REJECTED:
        return outcome != ACCEPTED
    if on_refused is None:
        _log.error("record %s can never be an event: %s", record.item, document.get("detail"))
        return not record.is_of_a_stream
    try:
        on_refused(record.raw, document)
    except Exception as error:  # noqa: BLE001 - after any error the record must stay with AWS
        _log.error("on_refused raised %s: record %s is left to AWS", type(error).__name__, record.item)
        return True
    return False


def _record(raw: dict[str, Any]) -> _Record:
    if (stream := raw.get("kinesis")) is not None:
        milliseconds = float(stream["approximateArrivalTimestamp"]) * 1000
        return _Record(raw, raw["eventID"], stream["sequenceNumber"], milliseconds, True)
    if "messageId" not in raw:
        raise ValueError(f"a record of {raw.get('eventSource')!r} is not from SQS or Kinesis")
    sent = float(raw.get("attributes", {}).get("SentTimestamp", 0))
    return _Record(raw, raw["messageId"], raw["messageId"], sent, False)


def _seconds(context: Any) -> float:
    """Return the remaining seconds of the Lambda's time, less a margin."""
    if context is None:
        return _WITHOUT_CLOCK_SECONDS
    return max(0.0, float(context.get_remaining_time_in_millis()) / 1000 - _MARGIN_SECONDS)
