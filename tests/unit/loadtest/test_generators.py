"""The load generators' connections: one request at a time, each answer whole before the next request."""

import asyncio
from typing import Any, cast

from loadtest import http_load, open_loop

RECEIPT = b'{"receipt":{"topic":"events.a","partition":0,"offset":7}}'
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\n\r\n%s" % (len(RECEIPT), RECEIPT)
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}"


class Wire:
    """A transport that records the written bytes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True


async def closed_loop(until: float) -> tuple[http_load.Connection, Wire]:
    connection, wire = http_load.Connection([b"1", b"2", b"3"], 0, until), Wire()
    connection.connection_made(cast("Any", wire))
    return connection, wire


def test_the_next_request_goes_when_the_answer_is_whole_however_it_was_cut() -> None:
    connection, wire = asyncio.run(closed_loop(until=float("inf")))
    for at in range(1, len(ACCEPTED)):
        before = len(wire.written)
        connection.data_received(ACCEPTED[:at])
        assert len(wire.written) == before
        connection.data_received(ACCEPTED[at:])
        assert len(wire.written) == before + 1
    assert wire.written[:4] == [b"2", b"3", b"1", b"2"]
    assert (len(connection.latencies), connection.other) == (len(ACCEPTED) - 1, 0)


def test_answers_that_are_no_202_are_counted_apart_and_after_the_end_nothing_is_sent() -> None:
    connection, wire = asyncio.run(closed_loop(until=0.0))
    connection.data_received(REFUSED)
    assert (len(connection.latencies), connection.other) == (1, 1)
    assert (len(wire.written), wire.closed) == (1, True)


def test_each_event_of_the_open_loop_gets_its_own_receipt_however_the_answers_were_cut() -> None:
    idle: asyncio.Queue[open_loop._Connection] = asyncio.Queue()
    connection = open_loop._Connection(idle)
    connection.connection_made(cast("Any", Wire()))
    for at in range(1, len(ACCEPTED)):
        assert idle.get_nowait() is connection
        sent = open_loop.Sent(0.0, "a")
        connection.send(sent, b"")
        connection.data_received(ACCEPTED[:at])
        assert (idle.empty(), sent.receipt) == (True, None)
        connection.data_received(ACCEPTED[at:])
        assert sent.receipt == {"topic": "events.a", "partition": 0, "offset": 7}
        assert sent.answered > 0


def test_an_event_that_was_refused_has_no_receipt() -> None:
    idle: asyncio.Queue[open_loop._Connection] = asyncio.Queue()
    connection = open_loop._Connection(idle)
    connection.connection_made(cast("Any", Wire()))
    sent = open_loop.Sent(0.0, "a")
    connection.send(sent, b"")
    connection.data_received(REFUSED)
    assert (sent.receipt, sent.answered > 0) == (None, True)
