"""The gateway's protections on real networks: syslog's senders, stopping behind a balancer, shared quotas."""

from functools import partial
from typing import Final

from tests.mutants.machine import Mutant as AnyMutant

SYSLOG: Final = "tests/unit/ingest/test_syslog.py tests/unit/ingest/test_syslog_limits.py"
SHARED: Final = "tests/unit/ingest/test_shared_quotas.py"
LEAVING: Final = "tests/integration/ingest/test_leaving.py"
Mutant = partial(AnyMutant, tests=SYSLOG)

NETWORKS: Final = (
    Mutant(
        "what fails before it is sent",
        "syslog/delivery.py",
        "return await self._in_halves(lines, transport, arrival, e)",
        "raise",
    ),
    Mutant("what fails on its way", "syslog/delivery.py", "if arrival.step is Step.SEND or", "if"),
    Mutant(
        "resending what syslog read",
        "syslog/delivery.py",
        "lines = await self._again(lines, transport)",
        "await self._again(lines, transport)\n            lines = []",
    ),
    Mutant(
        "networks over UDP",
        "syslog/listener.py",
        'if not self._sources.admits(peer):\n            count("udp"',
        'if False:\n            count("udp"',
    ),
    Mutant(
        "networks over TCP",
        "syslog/listener.py",
        "not self._sources.admits(peer) or not self._seats",
        "not self._seats",
    ),
    Mutant(
        "silent connections",
        "syslog/listener.py",
        "asyncio.timeout(self._settings.syslog_idle_seconds)",
        "asyncio.timeout(None)",
    ),
    Mutant(
        "the last answer of a connection",
        "http/protocol_limits.py",
        "if self._leaving.begun:\n            self.leave()",
        "pass",
        tests=LEAVING,
    ),
    Mutant(
        "quotas of all workers",
        "auth/quota_levels.py",
        "Levels(Path(file) if file else None)",
        "Levels(None)",
        tests="tests/integration/ingest/test_workers_quota.py",
    ),
    Mutant(
        "a lock that is not awaited for ever",
        "auth/quota_levels.py",
        "for _ in range(_TRIES):",
        "while True:",
        tests=SHARED,
    ),
    Mutant("the lock", "auth/quota_levels.py", "return True\n    return False", "return False", tests=SHARED),
    Mutant("places of full buckets", "auth/quota_levels.py", "or level < free[0]", "", tests=SHARED),
    Mutant("parts of a quota", "auth/quotas.py", "rate / self._copies", "rate", tests=SHARED),
    Mutant("quotas of datagrams", "syslog/listener.py", "if self._sources.wait(peer):", "if False:"),
    Mutant("quotas of connections", "syslog/listener.py", "await self._turn_of(peer, len(messages))", "pass"),
    Mutant(
        "counting who has the turn",
        "syslog/listener.py",
        "            await self._turn_of(peer, len(messages))\n"
        "            self._sources.charge(peer, len(messages), len(data))\n",
        "            self._sources.charge(peer, len(messages), len(data))\n"
        "            await self._turn_of(peer, len(messages))\n",
    ),
    Mutant("a seat for a newcomer", "syslog/seats.py", " and not self._make_room(peer)", ""),
    Mutant("no seat for one of many", "syslog/seats.py", "if of[peer] + 1 >= most:", "if False:"),
    Mutant("seats that deliver", "syslog/seats.py", " and not seat.delivers", ""),
    Mutant("a time for an envelope", "syslog/message.py", "msgspec.convert(given, Moment)", "str(given)"),
    Mutant(
        "pieces of one read",
        "syslog/delivery.py",
        "[self.line(message, transport, peer) for message in some]",
        "[self.line(message, transport, peer) for message in messages][start : start + self.most]",
        tests="tests/unit/ingest/test_loop_hold.py",
    ),
    Mutant("the quota of one source", "syslog/sources.py", 'f"syslog {peer}"', '"syslog"'),
    Mutant(
        "the quota of all sources",
        "syslog/sources.py",
        "max(self._all.wait(), self._of(peer).wait())",
        "self._of(peer).wait()",
    ),
    Mutant("telling those who wait", "http/drain.py", "connection.leave()", "pass", tests=LEAVING),
    Mutant("readiness of one that leaves", "http/pages.py", "and not leaving.begun", "", tests=LEAVING),
    Mutant(
        "the time to leave",
        "http/drain.py",
        "loop.call_later(self._seconds,",
        "loop.call_later(0,",
        tests=LEAVING,
    ),
    Mutant("leaving at all", "app.py", "with leaving.on_sigterm():", "if True:", tests=LEAVING),
)
