"""In a Lambda one bad record never fails its batch for ever, and none is lost."""

import base64
import json
import logging
from typing import Any

import pytest

from clients.python.onramp_client.lambda_handler import handler_for
from tests.fixtures.raw_server import Worst, problem, results


class Clock:
    """A Lambda's context with so much time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self._seconds * 1000)


def sqs(**bodies: str) -> dict[str, Any]:
    sent = {"SentTimestamp": "1700000000000"}
    return {"Records": [{"messageId": i, "body": body, "attributes": sent} for i, body in bodies.items()]}


def kinesis(**data: str) -> dict[str, Any]:
    return {"Records": [_kinesis(number, content) for number, content in data.items()]}


def _kinesis(number: str, content: str) -> dict[str, Any]:
    data = base64.b64encode(content.encode()).decode()
    stream = {"sequenceNumber": number, "approximateArrivalTimestamp": 1_700_000_000.5, "data": data}
    return {"eventID": f"shardId-0:{number}", "kinesis": stream}


def failures(answer: dict[str, Any]) -> list[str]:
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


BAD = {"no JSON": "not json", "no object": "[1]", "NaN": '{"a": NaN}', "too deep": '{"a":' + "[" * 100_000}


@pytest.mark.parametrize("body", BAD.values(), ids=list(BAD))
def test_a_bad_message_is_left_to_the_queue_alone(worst: Worst, body: str) -> None:
    handle = handler_for("order_placed", worst.url)
    assert failures(handle(sqs(a="{}", bad=body, c="{}"), None)) == ["bad"]
    assert [sorted(ids) for ids in worst.ids] == [["a", "c"]]


@pytest.mark.parametrize("body", BAD.values(), ids=list(BAD))
def test_a_bad_record_does_not_hold_up_its_shard(
    worst: Worst, caplog: pytest.LogCaptureFixture, body: str
) -> None:
    handle = handler_for("order_placed", worst.url)
    with caplog.at_level(logging.ERROR, "onramp_client"):
        assert failures(handle(kinesis(**{"1": "{}", "2": body, "3": "{}"}), None)) == []
    assert "record 2 can never be an event" in caplog.text
    assert worst.ids == [["shardId-0:1", "shardId-0:3"]]


@pytest.mark.parametrize("batch", [sqs(a="{}", bad='{"x":1}'), kinesis(a="{}", bad='{"x":1}')])
def test_record_rejected_by_the_gateway_is_passed_to_on_refused(worst: Worst, batch: dict[str, Any]) -> None:
    worst.script = lambda asked: results(asked, **{asked.ids[1]: "422 schema_mismatch"})
    refused = []
    handle = handler_for("x", worst.url, on_refused=lambda record, said: refused.append((record, said)))
    assert failures(handle(batch, None)) == []
    assert [record for record, _ in refused] == [batch["Records"][1]]
    assert refused[0][1]["type"] == "/errors/schema_mismatch"


def test_record_whose_on_refused_callback_fails_is_returned_to_aws_as_failed(worst: Worst) -> None:
    def raising(*_: object) -> None:
        raise OSError("the bucket is away")

    handle = handler_for("x", worst.url, on_refused=raising)
    assert failures(handle(kinesis(**{"1": "{}", "2": "no"}), None)) == ["2"]


def test_record_without_an_outcome_in_time_is_returned_to_aws_as_failed(worst: Worst) -> None:
    worst.script = lambda _: problem(503)
    handle = handler_for("x", worst.url)
    assert failures(handle(sqs(a="{}", b="{}"), Clock(3.1))) == ["a", "b"]


def test_a_record_that_aws_sends_again_is_the_same_event(worst: Worst) -> None:
    handle = handler_for("x", worst.url)
    for _ in range(2):
        handle(kinesis(**{"7": '{"n":7}'}), None)
        handle(sqs(a='{"n":1}'), None)
    first, second, *again = [asked.lines for asked in worst.asked]
    assert again == [first, second]
    assert json.loads(first[0])["metadata"]["timestamp"].startswith("2023-11-14T22:13:20.5")


def test_a_record_of_another_source_is_named(worst: Worst) -> None:
    handle = handler_for("x", worst.url)
    with pytest.raises(ValueError, match="aws:sns"):
        handle({"Records": [{"eventSource": "aws:sns"}]}, None)
