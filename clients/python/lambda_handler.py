# ruff: noqa: INP001 - a file to copy, no package
"""An AWS Lambda that forwards the records of an SQS queue, and returns when Kafka has them.

Set ONRAMP_URL and ONRAMP_KEY.  A Lambda is frozen when it returns, so it waits for every
answer; SQS sends what it reports as failed again, under the same ids.
"""

import json
import os
from typing import Any

from onramp_client import Onramp

#: Below the Lambda's own timeout.
_WAIT_SECONDS = 20.0


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Send each record's body as an `order_placed` event; report those that are not accepted."""
    outcomes: dict[str, str] = {}

    def settled(event_id: str, outcome: str, _said: dict[str, Any]) -> None:
        outcomes[event_id] = outcome

    onramp = Onramp(os.environ["ONRAMP_URL"], os.environ.get("ONRAMP_KEY"), on_settled=settled)
    for record in event["Records"]:
        onramp.send("order_placed", json.loads(record["body"]), id=record["messageId"], block_seconds=5.0)
    onramp.close(_WAIT_SECONDS)
    ids = [record["messageId"] for record in event["Records"]]
    return {"batchItemFailures": [{"itemIdentifier": i} for i in ids if outcomes.get(i) != "accepted"]}
