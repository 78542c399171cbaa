"""Generated requests: none causes a 500, and no refused event is on Kafka.

Short by default; `ONRAMP_FUZZ_EXAMPLES=20000 pytest tests/unit/ingest/test_fuzz.py` goes on for
longer.
"""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import orjson
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.ingest.app import State, assemble
from services.ingest.http.connections import Connections
from services.ingest.http.drain import Drain
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.settings import IngestSettings
from services.ingest.sink import MemorySink
from shared import envelope
from shared.registry.memory import MemoryRegistry
from tests.fixtures.examples import DERANDOMIZE, examples
from tests.fixtures.ingest import envelope as good
from tests.unit.ingest.conftest import LocalGateway

pytestmark = pytest.mark.anyio

relaxed = settings(
    max_examples=examples(100),
    deadline=None,
    derandomize=DERANDOMIZE,
    suppress_health_check=list(HealthCheck),
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer or a surrogate that orjson does not write
        return repr(value).encode(errors="replace")


@st.composite
def nearly_envelopes(draw: st.DrawFn) -> bytes:
    """An envelope with some places changed, some bytes too."""
    event: dict[str, Any] = good(draw(st.sampled_from(["a", "b"])), draw(st.sampled_from(["order", "x"])))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.sampled_from([event, event.get("metadata", event)]))
        if isinstance(place, dict) and place:
            place[draw(st.sampled_from(sorted(map(str, place))) | st.text(max_size=5))] = draw(JSON_VALUES)
    raw = bytearray(dumped(event))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 3))] = draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"],"])
        )
    return bytes(raw)


BODIES = st.one_of(
    st.binary(max_size=200),
    nearly_envelopes(),
    st.lists(nearly_envelopes(), max_size=4).map(lambda items: b"[" + b",".join(items) + b"]"),
    st.lists(nearly_envelopes(), max_size=4).map(b"\n".join),
    JSON_VALUES.map(dumped),
)
TYPES = st.sampled_from(
    [
        "application/json",
        "application/x-ndjson",
        "application/cloudevents+json",
        "application/cloudevents-batch+json",
        "text/plain",
    ]
)


@given(content=BODIES, kind=TYPES, zipped=st.booleans())
@relaxed
async def test_every_answer_is_an_answer(
    gateway: LocalGateway, content: bytes, kind: str, zipped: bool
) -> None:
    gateway.sink.topics.clear()
    if zipped:
        answer = await gateway.post(gzip.compress(content), content_type=kind, content_encoding="gzip")
    else:
        answer = await gateway.post(content, content_type=kind)

    assert answer.status_code in {202, 207, 400, 413, 415, 422}
    told = answer.json()
    statuses = [each["status"] for each in told.get("results", [told | {"status": answer.status_code}])]
    records = [record for topic in gateway.sink.topics for record in gateway.sink.records(topic)]
    assert statuses.count(202) == len(records)
    for record in records:  # what is on Kafka, the writer can read
        assert msgspec.json.decode(record.value)
        assert envelope.parse(record.value).metadata.id.encode() == record.key
    assert gateway.budget.used == 0


HEADER = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=30)


@given(
    headers=st.dictionaries(
        st.sampled_from(
            [
                *("content-type", "content-encoding", "authorization", "traceparent", "origin"),
                *("ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time", "ce-x"),
            ]
        ),
        HEADER,
    )
)
@relaxed
async def test_every_header_is_an_answer(gateway: LocalGateway, headers: dict[str, str]) -> None:
    given_headers = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = await gateway.client.post("/v1/events", content=dumped(good()), headers=given_headers)

    assert answer.status_code in {202, 400, 401, 403, 415, 422}


def _gateway() -> Any:
    # The client of the schema calls it by a name that is not this machine's.
    given_settings = IngestSettings(host="0.0.0.0")
    registry, budget = MemoryRegistry(), ByteBudget(given_settings.inflight_bytes)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        connections = Connections(given_settings.max_connections)
        yield {
            "settings": given_settings,
            "drain": Drain(),
            "budget": budget,
            "connections": connections,
            "tls": None,
        }

    return assemble(
        given_settings,
        sink=MemorySink(),
        budget=budget,
        registry=registry,
        lifespan=lifespan,
        allow_keyless=True,
    )


@schemathesis.serializer("application/x-ndjson")
def _lines(_: Any, value: Any) -> bytes:
    return dumped(value)


GATEWAY = _gateway()
schema = schemathesis.openapi.from_asgi("/openapi.json", GATEWAY)
# Events have rules that their schemas do not say, and there are fewer pages of errors than names.
schema.config.checks.positive_data_acceptance.expected_statuses = ["2xx", "400", "404", "422"]


@schema.parametrize()
@relaxed
def test_the_gateway_is_what_its_openapi_says(case: schemathesis.Case) -> None:
    case.call_and_validate()
