"""What keeps the gateway's memory within its budget, and its two threads from being one sender's."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant

_HELD = partial(Mutant, tests="tests/unit/ingest/test_held.py")
_TURNS = partial(Mutant, tests="tests/unit/ingest/test_turns.py", file="turns.py")
_COUNTED: Final = "tests/unit/ingest/test_many_faults.py"

HELD: Final = (
    Mutant(
        "parsing heavy bodies in a thread",
        "turns.py",
        "if is_heavy(body) else",
        "if False else",
        tests=_COUNTED,
    ),
    _TURNS("turns", old="if self._free:", new="if True:"),
    _TURNS("each sender's line", old="setdefault(queue, ", new='setdefault("", '),
    _TURNS(
        "one turn after the other",
        old="self._waiting[queue] = line",
        new="self._waiting = {queue: line, **self._waiting}",
    ),
    _TURNS("the turn of who gave up", old="if not mine.cancelled():", new="if False:"),
    _TURNS("who gave up before", old="if not mine.done():", new="if True:"),
    _HELD("no frames in events' verdicts", "check/check.py", ".kept()", ""),
    _HELD("no frames in verdicts of text", "decode/decode.py", ".kept()", ""),
    _HELD("no frames in verdicts of keys", "route.py", ".kept()", ""),
    _HELD("no frames in a request's refusal", "http/endpoint.py", ".kept()", ""),
    _HELD("letting the body go", "accept.py", "del body", "pass"),
    _HELD(
        "answers of their own size",
        "http/problems.py",
        "_ENCODE(document)",
        "__import__('orjson').dumps(document)",
    ),
    _HELD(
        "room for each piece",
        "http/content_encoding.py",
        "                yield self.size\n",
        "            yield self.size\n",
    ),
    _HELD("room for what was read", "http/protocol_limits.py", "and self.cycle.has_room(len(body))", ""),
    _HELD(
        "room for requests that wait",
        "http/protocol_limits.py",
        "if self.pipeline and not self.cycle.has_room(_WAITING_BYTES):",
        "if False:",
    ),
    _HELD("what is read behind no room", "http/request_cycle.py", "raise self._no_room", "pass"),
    _HELD(
        "releasing what is asked for",
        "http/request_cycle.py",
        "await super().receive()\n        self._release()",
        "await super().receive()",
    ),
    _HELD(
        "releasing what nobody asked for",
        "http/request_cycle.py",
        "finally:\n            self.forget()",
        "finally:\n            pass",
    ),
    _HELD(
        "releasing what waits in line",
        "http/protocol_limits.py",
        "            waiting.forget()\n",
        "            pass\n",
    ),
)
