"""No request blocks the event loop: /healthz and other requests are answered meanwhile.

Time is the processor's, of the loop's thread alone, and is compared with calibrated work of the same run, of
the kinds that a request costs: the interpreter's, and the kernel's for new memory.  A slow or busy machine
changes both.  The collector has nothing to walk through but the request, as in the gateway's process.  Work
in other threads is bounded by what one call of a parser may see, for no other thread has a turn meanwhile.
"""

import asyncio
import gc
import gzip
import mmap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.ingest.decode import decode
from services.ingest.decode.array_items import split_array
from shared import strict_json
from tests.fixtures import calibration
from tests.fixtures.examples import DERANDOMIZE, examples
from tests.fixtures.ingest import envelope, until
from tests.unit.ingest.conftest import LocalGateway, MakeGateway, Rig

pytestmark = pytest.mark.anyio

#: The calibrated work takes a quarter of what a request may hold.
MAX = 4.0
FULL = 10 * 2**20 - 100
REQUIRED = [f"the_field_{n}" for n in range(20)]
TYPED = {
    "type": "object",
    "required": REQUIRED,
    "additionalProperties": False,
    "properties": {name: {"type": "integer"} for name in REQUIRED},
}
REGISTRY = {"event_types": {"typed": {"schema": TYPED}}}


def calibrated() -> float:
    """Return the seconds of a fixed piece of work here and now, with new memory: some 25 ms."""
    began = time.thread_time()
    calibration.calibrated()
    with mmap.mmap(-1, FULL) as pages:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        pages[:] = bytes(FULL)
        assert len(pages[:]) == FULL
    return time.thread_time() - began


class Hold:
    """The longest time of the processor between two turns of the event loop."""

    longest = 0.0


@asynccontextmanager
async def beating() -> AsyncIterator[Hold]:
    hold = Hold()

    async def beat() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            hold.longest = max(hold.longest, now - last)
            last = now

    gc.freeze()
    beats = asyncio.create_task(beat())
    await asyncio.sleep(0)
    try:
        yield hold
        await asyncio.sleep(0)  # the last beat: work that never waited would not be measured without it
    finally:
        beats.cancel()
        gc.unfreeze()


def many(piece: bytes, size: int = FULL) -> bytes:
    return piece * (size // len(piece))


def typed(payload: Any) -> bytes:
    return orjson.dumps(envelope(name="typed") | {"payload": payload})


HOSTILE: dict[str, Callable[[], bytes]] = {
    "five million items": lambda: b"[" + many(b"1,") + b"NaN]",
    "five million numbers in an item": lambda: b"[[" + many(b"1,") + b"1],NaN]",
    "three million brackets in an item": lambda: b"[[" + many(b"[],") + b"1],NaN]",
    "eleven items of 450,000 numbers": lambda: b"[" + many(b"[" + many(b"1,", 890_000) + b"1],") + b"NaN]",
    "ten thousand items": lambda: b"[" + b"{}," * 9_999 + b"{}]",
    "ten thousand items and a NaN": lambda: b"[" + b"{}," * 9_999 + b"NaN]",
    "ten thousand and one": lambda: b"[" + b"{}," * 10_000 + b"{}]",
    "three million strings": lambda: b"[[" + many(b'"",') + b"1],NaN]",
    "escapes": lambda: b'["' + many(b"\\\\") + b'",NaN]',
    "a string without an end": lambda: b'[{},"' + many(b"x"),
    "brackets without an end": lambda: many(b"["),
    "one object of 10 MB": lambda: b'{"a":[' + many(b"1,") + b"1]}",
    "numbers that are parsed exactly": lambda: b"[[" + many(b"1,", 800_000) + b"12345678901234567890123]]",
    "objects that are parsed exactly": lambda: (
        b"[[" + many(b'{"":1},', 800_000) + b"12345678901234567890123]]"
    ),
    "60,000 keys against 20": lambda: typed({f"the_field_{n}_": n for n in range(40_000)}),
    "faults in every event": lambda: (
        b"[" + many(typed({"the_field_1": "x" * 10_000}) + b",", 5_000_000) + b"1]"
    ),
    "9 MB of faults": lambda: b"[" + many(typed({f"f{n}": n for n in range(500)}) + b",") + b"1]",
    "good events": lambda: b"[" + many(orjson.dumps(envelope(text="x" * 500)) + b",", 6_000_000) + b"1]",
}


async def hold_of(gateway: LocalGateway, content: bytes, kind: str) -> float:
    zipped = gzip.compress(content, 1)
    async with beating() as hold:
        answer = await gateway.post(zipped, content_type=kind, content_encoding="gzip")
    assert answer.status_code in {202, 207, 400, 413, 422}
    return hold.longest


#: Of several bodies that exercise one mechanism, `make test` sends one.
REPEATED = {
    "three million brackets in an item",  # as five million numbers in an item
    "ten thousand items and a NaN",  # as ten thousand items
    "ten thousand and one",
    "a string without an end",  # as brackets without an end
    "numbers that are parsed exactly",  # as objects that are parsed exactly
    "faults in every event",  # as 9 MB of faults
    "one object of 10 MB",  # as five million items
}
CASES = [
    pytest.param("application/json", name, marks=pytest.mark.full if name in REPEATED else ())
    for name in HOSTILE
]
CASES += [("application/x-ndjson", name) for name in ("five million items", "three million strings")]
CASES += [
    ("application/cloudevents-batch+json", name) for name in ("five million items", "ten thousand items")
]


class Parsed:
    """orjson, and the documents that it parsed."""

    dumps, JSONDecodeError, JSONEncodeError = orjson.dumps, orjson.JSONDecodeError, orjson.JSONEncodeError

    def __init__(self) -> None:
        self.most = 0

    def loads(self, body: bytes) -> Any:
        self.most = max(self.most, len(body))
        return orjson.loads(body)


@pytest.mark.parametrize(("kind", "name"), CASES)
async def test_no_request_holds_the_loop(
    make_gateway: MakeGateway, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a parser see more than a piece of it."""
    monkeypatch.setattr(strict_json, "orjson", parsed := Parsed())
    gateway = make_gateway(REGISTRY)
    content = HOSTILE[name]()
    if kind == "application/x-ndjson":
        content = content.removeprefix(b"[").replace(b"},{", b"}\n{")
    unit = calibrated()
    held = await hold_of(gateway, content, kind)

    assert held < MAX * max(unit, calibrated())
    assert parsed.most < max(decode._PIECE_BYTES * 1.1, gateway.settings.max_event_bytes + 1)


@pytest.mark.parametrize("line", [b"\n", b"1\n", b"{}\n", b"\r\n "])
async def test_no_lines_hold_the_loop(gateway: LocalGateway, line: bytes) -> None:
    unit = calibrated()

    assert await hold_of(gateway, many(line), "application/x-ndjson") < MAX * max(unit, calibrated())


MOTIFS = st.sampled_from(
    [
        b"1,",
        b"[],",
        b"{},",
        b'"",',
        b'{"a":1},',
        b"[",
        b"]",
        b'"',
        b"\\",
        b",",
        b" ",
        b"\n",
        b"NaN,",
        b"9" * 30 + b",",
    ]
)


@given(
    motif=MOTIFS,
    other=MOTIFS,
    size=st.integers(1, 2_000_000),
    wrap=st.sampled_from([b"[%s]", b"[[%s1]]", b"%s"]),
)
@settings(
    max_examples=examples(10),
    deadline=None,
    derandomize=DERANDOMIZE,
    suppress_health_check=list(HealthCheck),
)
async def test_no_motif_holds_the_loop(
    gateway: LocalGateway, motif: bytes, other: bytes, size: int, wrap: bytes
) -> None:
    content = wrap.replace(b"%s", many(motif, size) + other)
    unit = calibrated()

    assert await hold_of(gateway, content, "application/json") < MAX * max(unit, calibrated())


def test_items_over_the_limit_are_not_cut() -> None:
    assert split_array(b"[" + b"1," * 5_000_000 + b"NaN]", 10) == [b"1"] * 11
    assert split_array(b'["a,b", [1, {"c": "]"}] , {}\n]', 10) == [b'"a,b"', b'[1, {"c": "]"}]', b"{}"]
    assert split_array(b"[ ]", 10) == []
    assert split_array(b'["' + b"x" * 10_000, 10) is None


async def test_thirty_thousand_syslog_messages_in_one_read(start: Callable[..., Any]) -> None:
    rig: Rig = await start()
    rig.gateway.sink.down = True
    _, writer = await asyncio.open_connection("127.0.0.1", rig.tcp)
    writer.write(b"first\n")
    await until(lambda: len(rig.syslog._connections.delivering) == 1)
    writer.write(b"x\n" * 32_000)  # they wait in one buffer while the first is on its way
    await writer.drain()
    unit = calibrated()
    async with beating() as hold:
        rig.gateway.sink.down = False
        await until(lambda: rig.gateway.produced == 32_001)
    writer.close()
    assert hold.longest < MAX * max(unit, calibrated())
