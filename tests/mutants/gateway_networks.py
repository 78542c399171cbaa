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
        "return await self._in_halves(lines, transport, request, e)",
        "raise",
    ),
    Mutant("what fails on its way", "syslog/delivery.py", "if request.step is Step.SEND or", "if"),
    Mutant(
        "resending what syslog read",
        "syslog/delivery.py",
        "lines = await self._send_once(lines, transport)",
        "await self._send_once(lines, transport)\n            lines = []",
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
        "if self._sources.admits(opened.peer):",
        "if True:",
    ),
    Mutant(
        "silent connections",
        "syslog/listener.py",
        "opened.read(self._settings.syslog_idle_seconds)",
        "opened.read(3600)",
    ),
    Mutant(
        "the last answer of a connection",
        "http/protocol_limits.py",
        "if self._drain.started:\n            self.close_after_answer()",
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
        "a lock that is not awaited forever",
        "auth/quota_levels.py",
        "for _ in range(_LOCK_ATTEMPTS):",
        "while True:",
        tests=SHARED,
    ),
    Mutant("the lock", "auth/quota_levels.py", "return True\n    return False", "return False", tests=SHARED),
    Mutant("slots of full buckets", "auth/quota_levels.py", "or level < free[0]", "", tests=SHARED),
    Mutant("parts of a quota", "auth/quotas.py", "rate / self._copies", "rate", tests=SHARED),
    Mutant("quotas of datagrams", "syslog/listener.py", "if self._sources.delay(peer):", "if False:"),
    Mutant(
        "quotas of connections",
        "syslog/listener.py",
        "await self._wait_for_quota(peer, len(messages))",
        "pass",
    ),
    Mutant(
        "waiting before it is counted",
        "syslog/listener.py",
        "            await self._wait_for_quota(peer, len(messages))\n"
        "            self._sources.charge(peer, len(messages), len(data))\n",
        "            self._sources.charge(peer, len(messages), len(data))\n"
        "            await self._wait_for_quota(peer, len(messages))\n",
    ),
    Mutant("room for a new address", "syslog/connections.py", " and not self._make_room(peer)", ""),
    Mutant("no room for one of many", "syslog/connections.py", "if per_peer[peer] + 1 >= most:", "if False:"),
    Mutant("connections that deliver", "syslog/connections.py", " and not connection.delivering", ""),
    Mutant(
        "a time for an envelope", "syslog/message.py", "msgspec.convert(timestamp, Moment)", "str(timestamp)"
    ),
    Mutant(
        "pieces of one read",
        "syslog/delivery.py",
        "[self.line(message, transport, peer) for message in batch]",
        "[self.line(message, transport, peer) for message in messages][start : start + self.batch_size]",
        tests="tests/unit/ingest/test_loop_hold.py",
    ),
    Mutant("the quota of one source", "syslog/sources.py", 'f"syslog {peer}"', '"syslog"'),
    Mutant(
        "the quota of all sources",
        "syslog/sources.py",
        "max(self._all.delay(), self._of(peer).delay())",
        "self._of(peer).delay()",
    ),
    Mutant(
        "telling those who wait", "http/drain.py", "connection.close_after_answer()", "pass", tests=LEAVING
    ),
    Mutant("readiness of one that leaves", "http/pages.py", "and not drain.started", "", tests=LEAVING),
    Mutant(
        "the time to leave",
        "http/drain.py",
        "loop.call_later(self._seconds,",
        "loop.call_later(0,",
        tests=LEAVING,
    ),
    Mutant("leaving at all", "app.py", "with drain.on_sigterm():", "if True:", tests=LEAVING),
)
