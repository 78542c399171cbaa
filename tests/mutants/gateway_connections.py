"""What keeps the gateway's connections within its files, and one address from having all of them."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant

_TEST: Final = "tests/integration/ingest/test_many_connections.py"
_SHARED = partial(Mutant, file="http/connections.py", tests=_TEST)
_ON_CONNECTIONS = partial(Mutant, file="http/protocol_limits.py", tests=_TEST)
_ON_SYSLOG = partial(Mutant, file="syslog/listener.py", tests="tests/unit/ingest/test_syslog_tls.py")
_ON_HANDSHAKES = partial(Mutant, file="http/handshake.py", tests=_TEST)

CONNECTIONS: Final = (
    _SHARED("a bound on connections", old="elif self.open >= self.limit:", new="elif False:"),
    _SHARED("a bound for each address", old="if mine.open >= self._address_limit:", new="if False:"),
    _SHARED(
        "a place that is for others",
        old="min(address_limit, limit) or limit - limit // 10",
        new="limit",
    ),
    _SHARED("who crowds makes room", old="key=crowd,", new="key=lambda each: -crowd(each)[0],"),
    _SHARED(
        "addresses with as many",
        old="address.open + (address is newcomers)",
        new="address.open",
    ),
    _SHARED("none of those who have fewer", old="crowd(most)[0] <= newcomers.open", new="False"),
    _SHARED(
        "the longest idle", old="waiting.pop(connection, None)\n            address.waiting[", new="waiting["
    ),
    _ON_CONNECTIONS("places that are given back", old="        self._places.remove(self)\n", new=""),
    _ON_CONNECTIONS("places of who is answered", old="self._places.work(self)", new="pass"),
    _ON_CONNECTIONS("places of who does not read", old=" or self.flow.write_paused", new=""),
    _ON_CONNECTIONS("places of half a body", old=" or answering.more_body", new=""),
    _ON_CONNECTIONS(
        "telling half a request",
        old="elif self._incomplete and self.scope is not None:",
        new="elif False:",
    ),
    _ON_CONNECTIONS(
        "an end that needs no reader",
        old='if self.scheme == "https" or self.transport.get_write_buffer_size():',
        new="if False:",
    ),
    _ON_HANDSHAKES(
        "places of handshakes",
        old='if not self._places.add(self, client[0] if client else ""):',
        new="if False:",
    ),
    _ON_HANDSHAKES(
        "the time of a handshake", old='self._state["tls"], seconds)', new='self._state["tls"], 300)'
    ),
    _ON_SYSLOG(
        "the time of syslog's handshake",
        file="syslog/opened.py",
        old="self._context, self._seconds)",
        new="self._context, 300)",
    ),
    _ON_SYSLOG(
        "places of syslog's handshakes",
        old="if self._connections.add(task, opened.peer):",
        new="if self._connections.add(task, opened.peer) or True:",
    ),
    _ON_SYSLOG("files of who gave up a place", old="else opened.abort)()", new="else opened.close)()"),
    Mutant(
        "files for Kafka and the registry",
        "open_files.py",
        "_limit() - _beside(settings)",
        "settings.max_connections",
        "tests/integration/ingest/test_open_files.py",
    ),
)
