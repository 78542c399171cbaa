"""The gateway's protections on real networks: syslog's senders, stopping behind a balancer, shared quotas."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant as AnyMutant

SYSLOG: Final = "tests/unit/ingest/test_syslog.py tests/unit/ingest/test_syslog_limits.py"
LEAVING: Final = "tests/integration/ingest/test_leaving.py"
Mutant = partial(AnyMutant, tests=SYSLOG)

NETWORKS: Final = (
    Mutant(
        "what fails before it is sent",
        "syslog_delivery.py",
        "return await self._in_halves(lines, transport, arrival, e)",
        "raise",
    ),
    Mutant("what fails on its way", "syslog_delivery.py", "if arrival.step is Step.SEND or", "if"),
    Mutant(
        "resending what syslog read",
        "syslog_delivery.py",
        "lines = await self._again(lines, transport)",
        "await self._again(lines, transport)\n            lines = []",
    ),
    Mutant(
        "networks over UDP",
        "syslog_listener.py",
        'if not self._sources.admits(peer):\n            count("udp"',
        'if False:\n            count("udp"',
    ),
    Mutant(
        "networks over TCP",
        "syslog_listener.py",
        'if not self._sources.admits(peer):\n            count("tcp"',
        'if False:\n            count("tcp"',
    ),
    Mutant(
        "silent connections",
        "syslog_listener.py",
        "asyncio.timeout(self._settings.syslog_idle_seconds)",
        "asyncio.timeout(None)",
    ),
    Mutant(
        "the last answer of a connection",
        "protocol.py",
        "if self._leaving.begun:\n            self.leave()",
        "pass",
        tests=LEAVING,
    ),
    Mutant("telling those who wait", "leaving.py", "connection.leave()", "pass", tests=LEAVING),
    Mutant("readiness of one that leaves", "pages.py", "and not leaving.begun", "", tests=LEAVING),
    Mutant(
        "the time to leave",
        "leaving.py",
        "loop.call_later(self._seconds,",
        "loop.call_later(0,",
        tests=LEAVING,
    ),
    Mutant("leaving at all", "app.py", "with leaving.on_sigterm():", "if True:", tests=LEAVING),
)
