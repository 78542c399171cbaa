"""Locust users that send events to a gateway: `make load` against a running `make run`.

Each user asks for a constant throughput, so a slow answer does not lower the rate that is
offered until all users are busy.  An answer counts as good only when it is a 202.
"""

import itertools
import os
import secrets

import orjson
from locust import FastHttpUser, constant_throughput, events, task
from locust.env import Environment

EVENT_NAME = os.environ.get("ONRAMP_LOAD_EVENT", "load_test")
#: Bytes of the payload; the envelope around it adds about 130.
PAYLOAD_BYTES = int(os.environ.get("ONRAMP_LOAD_PAYLOAD_BYTES", "250"))
BATCH = int(os.environ.get("ONRAMP_LOAD_BATCH", "500"))
API_KEY = os.environ.get("ONRAMP_API_KEY", "")

_RUN = secrets.token_hex(4)
_numbers = itertools.count()


def envelope() -> dict[str, object]:
    """An event that no other run has sent."""
    number = next(_numbers)
    note = "x" * max(PAYLOAD_BYTES - len(f'{{"n":{number},"note":""}}'), 0)
    return {
        "metadata": {"id": f"{_RUN}-{number}", "timestamp": "2026-11-21T08:00:00Z", "version": "1"},
        "event_name": EVENT_NAME,
        "payload": {"n": number, "note": note},
    }


class _Sender(FastHttpUser):
    abstract = True

    def send(self, document: object, name: str) -> None:
        """POST and demand a 202: a 207 or a 503 is a failure here."""
        headers = {"Content-Type": "application/json"}
        if API_KEY:
            headers["Authorization"] = f"Bearer {API_KEY}"
        body = orjson.dumps(document)
        with self.client.post(
            "/v1/events", data=body, headers=headers, name=name, catch_response=True
        ) as answer:
            if answer.status_code != 202:  # noqa: PLR2004
                answer.failure(f"status {answer.status_code}")


class Singles(_Sender):
    """One event a request, ten requests a second and user."""

    wait_time = constant_throughput(10)

    @task
    def one(self) -> None:
        """Send one event."""
        self.send(envelope(), "single")


class Batches(_Sender):
    """`ONRAMP_LOAD_BATCH` events a request, one request a second and user."""

    wait_time = constant_throughput(1)

    @task
    def many(self) -> None:
        """Send a batch."""
        self.send([envelope() for _ in range(BATCH)], f"batch of {BATCH}")


@events.quitting.add_listener
def _say_what_was_sent(environment: Environment, **_: object) -> None:
    print(f"events offered: {next(_numbers)}; failures: {environment.stats.total.num_failures}")
