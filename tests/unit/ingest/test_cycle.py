"""An answer is written as one piece; unwritable rests follow in order."""

import asyncio
import logging
from typing import Any, cast

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from services.ingest.http.request_cycle import Cycle
from services.ingest.send.byte_budget import ByteBudget

pytestmark = pytest.mark.anyio

LARGE = b"x" * 100_000


class Pieces(asyncio.Transport):
    """Notes each write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False
        self.paused = False

    def write(self, data: Any) -> None:
        assert not self.closed
        if data:
            self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def cycle(pieces: Pieces, method: str = "POST", *, keep_alive: bool = True, waits: bool = False) -> Cycle:
    log = logging.getLogger("uvicorn.error")
    return Cycle(
        transport=pieces,
        scope={"type": "http", "method": method, "state": {"budget": ByteBudget(2**20)}},
        flow=FlowControl(pieces),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=waits,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


def start(length: int) -> Any:
    headers = [(b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": 202, "headers": headers}


def body(content: bytes, *, more: bool = False) -> Any:
    return {"type": "http.response.body", "body": content, "more_body": more}


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("content", [b"{}", b""])
async def test_head_and_body_are_one_piece(content: bytes, keep_alive: bool) -> None:
    pieces = Pieces()
    answering = cycle(pieces, keep_alive=keep_alive)
    await answering.send(start(len(content)))
    await answering.send(body(content))

    assert len(pieces.written) == 1
    assert pieces.written[0].startswith(b"HTTP/1.1 202 Accepted\r\n")
    assert pieces.written[0].endswith(b"\r\n\r\n" + content)
    assert pieces.closed is not keep_alive


async def test_a_large_body_is_not_copied() -> None:
    pieces = Pieces()
    answering = cycle(pieces)
    await answering.send(start(2 * len(LARGE)))
    await answering.send(body(LARGE, more=True))
    await answering.send(body(LARGE))

    head, *bodies = pieces.written
    assert head.endswith(b"\r\n\r\n")
    assert bodies == [LARGE, LARGE]


async def test_an_answer_without_a_body_leaves_at_once() -> None:
    pieces = Pieces()
    answering = cycle(pieces, "HEAD")
    await answering.send(start(7))
    await answering.send(body(b"not ours"))

    assert len(pieces.written) == 1
    assert answering.response_complete


async def test_an_answer_that_breaks_off_is_seen_to_begin() -> None:
    pieces = Pieces()

    async def breaks(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(7))
        raise RuntimeError("broken")

    await cycle(pieces).run_asgi(cast("Any", breaks))

    assert len(pieces.written) == 1
    assert pieces.closed


async def test_an_invitation_to_send_the_body_waits_for_nothing() -> None:
    pieces = Pieces()
    answering = cycle(pieces, waits=True)
    answering.message_event.set()
    await answering.receive()

    assert pieces.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
