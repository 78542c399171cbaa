"""Memory of a request is freed as soon as it is not needed, without the garbage collector."""

import asyncio
import ctypes
import gc
import gzip
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from services.ingest.accept import accept
from services.ingest.asgi import Answer, Message
from services.ingest.decode.decode import Limits, decode
from services.ingest.http import problems
from services.ingest.http.body import Body
from services.ingest.http.connections import Connections
from services.ingest.http.drain import Drain
from services.ingest.http.protocol_limits import LimitedProtocol
from services.ingest.request import BatchItem, RequestContext
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.settings import IngestSettings
from shared.errors import (
    BAD_ENVELOPE,
    BAD_REQUEST,
    NONE_ACCEPTED,
    OVERLOADED,
    TOO_MANY_CONNECTIONS,
    Fault,
    InfrastructureError,
    OnrampError,
    UserError,
)
from tests.fixtures.ingest import body, envelope, one, until
from tests.unit.ingest.conftest import LocalGateway, MakeGateway
from tests.unit.ingest.test_cycle import Pieces

pytestmark = pytest.mark.anyio

HEAD = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
REGISTRY = {"event_types": {"order_placed": {"key": "/customer"}}}


class Freed(bytes):
    """Records its deletion."""

    gone = 0

    def __del__(self) -> None:
        type(self).gone += 1


@pytest.fixture
def freed() -> Iterator[type[Freed]]:
    Freed.gone = 0
    gc.disable()
    yield Freed
    gc.enable()


def items() -> int:
    return sum(type(each) is BatchItem for each in gc.get_objects())


@pytest.mark.usefixtures("freed")
@pytest.mark.parametrize(
    "content",
    [
        b"[" + b"{}," * 300 + b"{}]",
        b"[" + b"NaN," * 300 + b"{}]",
        b"[NaN," + body(envelope()) + b"," + b"1e999," * 300 + b"{}]",
        body([envelope(f"id-{n}") for n in range(300)]),
    ],
    ids=["no envelopes", "no JSON", "a good one", "without their key"],
)
async def test_refused_events_are_in_no_cycle(make_gateway: MakeGateway, content: bytes) -> None:
    gateway = make_gateway(REGISTRY)
    before = items()
    assert (await gateway.post(content)).status_code in {207, 400, 422}

    assert items() == before


@pytest.mark.parametrize("end", [b"", b"]]", b",NaN"])
async def test_a_refused_body_is_in_no_cycle(gateway: LocalGateway, freed: type[Freed], end: bytes) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": Freed(b"[" + b" " * 600_000 + b"1" + end)}

    async def send(message: Message) -> None:
        assert message.get("status", 400) == 400

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/events", "headers": headers}
    await gateway.app(scope, receive, send)

    await until(lambda: freed.gone == 1)  # a thread lets go of it


async def test_a_batch_is_not_held_beside_its_events_while_kafka_is_slow(
    gateway: LocalGateway, freed: type[Freed], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[int] = []
    send = gateway.sink.send

    async def noted(records: Any) -> Any:
        await until(lambda: freed.gone == 1)
        gone.append(freed.gone)
        return await send(records)

    monkeypatch.setattr(gateway.sink, "send", noted)

    async def receive(_: RequestContext) -> bytes:
        return Freed(b"[" + one("a", text="x" * 200_000) + b"," + one("b") + b"]")

    await accept(gateway.app.flow, RequestContext("r", "now", {}), receive)
    assert gone == [1]


def test_a_large_answer_holds_no_more_than_its_bytes() -> None:
    results = [problems.short_problem(UserError(BAD_ENVELOPE, "")) for _ in range(2_000)]
    answer = problems.answer(UserError(NONE_ACCEPTED, "none"), "r", 1, results=results)

    assert _allocated(answer.body) < 1.3 * len(answer.body)


def _allocated(content: bytes) -> int:
    size = ctypes.CDLL(None).malloc_usable_size
    size.argtypes, size.restype = [ctypes.c_void_p], ctypes.c_size_t
    return int(size(id(content)))


async def test_gzip_body_is_not_inflated_beyond_the_memory_budget() -> None:
    zipped = gzip.compress(bytes(9_000_000))
    asked: list[int] = []

    class Noting(ByteBudget):
        def reserve(self, size: int) -> None:
            asked.append(size)
            super().reserve(size)

    async def receive() -> Message:
        return {"type": "http.request", "body": zipped}

    content = Body({b"content-encoding": b"gzip"}, receive, Noting(600_000), 10_000_000)
    with content, pytest.raises(InfrastructureError):
        await content.read()
    assert sum(asked) < 1_000_000


class Connection:
    """One connection of the gateway's protocol; its bodies are not read until `asks`."""

    def __init__(self, budget: ByteBudget, app: Any) -> None:
        state = {
            "settings": IngestSettings(),
            "drain": Drain(),
            "budget": budget,
            "connections": Connections(10),
        }
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False)
        config.load()
        self.transport = Pieces()
        self.protocol = LimitedProtocol(config, ServerState(), state)
        self.protocol.connection_made(self.transport)

    def hears(self, size: int, part: int | None = None) -> None:
        self.protocol.data_received(HEAD % size + b"x" * (size if part is None else part))


async def never(_scope: Any, _receive: Any, _send: Any) -> None:
    await asyncio.get_running_loop().create_future()


async def test_requests_that_wait_behind_others_are_counted() -> None:
    budget = ByteBudget(10_000)
    connection = Connection(budget, never)
    for _ in range(5):
        connection.hears(0)

    assert budget.used == 2 * 4096
    assert len(connection.protocol.pipeline) == 2
    connection.protocol.connection_lost(None)
    assert budget.used == 0


async def test_received_bytes_that_the_application_has_not_read_are_counted() -> None:
    budget = ByteBudget(250_000)
    connections = [Connection(budget, never) for _ in range(4)]
    for connection in connections:
        connection.hears(100_000)

    assert budget.used == 200_000
    assert [len(each.protocol.cycle.body) for each in connections] == [100_000, 100_000, 0, 0]
    assert [each.transport.paused for each in connections] == [True] * 4
    with pytest.raises(InfrastructureError) as refused:
        await connections[2].protocol.cycle.receive()
    assert refused.value.fault is OVERLOADED
    assert len((await connections[0].protocol.cycle.receive())["body"]) == 100_000  # type: ignore[typeddict-item]
    assert budget.used == 100_000


async def test_received_bytes_that_will_never_be_read_are_released() -> None:
    budget = ByteBudget(250_000)

    async def at_once(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    answered, left = Connection(budget, at_once), Connection(budget, never)
    answered.hears(100_000, 50_000)
    left.hears(10)
    left.hears(10_000)  # in line behind the other
    assert budget.used == 60_010 + 4096

    left.protocol.connection_lost(None)
    await until(lambda: budget.used == 10)  # `never` still has its own
    answered.protocol.data_received(b"x" * 40_000)
    assert budget.used == 10


def test_verdicts_of_text_hold_no_frames() -> None:
    found = decode(b"[NaN,1e999,{}]", RequestContext("r", "now", {}), Limits(10, 900_000))

    refused = [each.verdict for each in found if isinstance(each.verdict, UserError)]
    assert [each.__traceback__ for each in refused] == [None, None]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (OVERLOADED, InfrastructureError),
        (TOO_MANY_CONNECTIONS, InfrastructureError),
        (BAD_REQUEST, UserError),
    ],
)
async def test_protocol_rejection_is_a_user_or_infrastructure_error_by_its_fault(
    fault: Fault, kind: type[OnrampError], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, found = Connection(ByteBudget(1), never), list[OnrampError]()
    real = problems.answer

    def answer(error: OnrampError, request_id: str, retry_after: int) -> Answer:
        found.append(error)
        return real(error, request_id, retry_after)

    monkeypatch.setattr(problems, "answer", answer)
    connection.protocol._reject(fault, "for a test")
    assert [type(error) for error in found] == [kind]
