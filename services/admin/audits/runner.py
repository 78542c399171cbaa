"""Runs the audit that an operator has started; one of all replicas does, and repeats one that was killed."""

import asyncio
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from services.admin.background_tasks import UntilStopped
from services.admin.store.audits_sql import Audit, AuditSession
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 1.0
#: Maximum bytes of a line of the worker: the report of many partitions.
_MAX_LINE: Final = 256 << 20
_ENDED: Final = "the audit's process ended without a report: see the service's log"


class AuditRunner(UntilStopped):
    """Runs audits."""

    def __init__(self, dsn: str, databases: Mapping[str, str], bootstrap: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._databases = databases
        self._bootstrap = bootstrap

    async def _go_on(self) -> None:
        """Run audits; retry while the control database is unreachable."""
        while not self.stopped:
            try:
                session = await asyncio.to_thread(AuditSession.open, self._dsn)
                if session is not None:
                    await self._work(session)
            except InfrastructureError as e:
                log.debug("audits are waiting; retrying", extra={"reason": e.detail})
            await self.pause(_IDLE_SECONDS)

    async def _work(self, session: AuditSession) -> None:
        try:
            while not self.stopped:
                found = await asyncio.to_thread(session.next)
                if found is not None:
                    await self._run(session, found)
                await self.pause(_IDLE_SECONDS)
        finally:
            await asyncio.to_thread(session.close)

    async def _run(self, session: AuditSession, found: Audit) -> None:
        if found.state == "cancelling":
            await asyncio.to_thread(session.end, found.id, "cancelled")
            return
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "services.admin.audits.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE,
        )
        try:
            await self._follow(session, found, child)
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _follow(self, session: AuditSession, found: Audit, child: asyncio.subprocess.Process) -> None:
        """Store the worker's messages; return early when the audit is cancelled or the service stops."""
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018 - pipes
        request: dict[str, Any] = {"databases": dict(self._databases), "bootstrap": self._bootstrap}
        request |= {"deep": found.deep, "control": self._dsn}
        child.stdin.write(orjson.dumps(request) + b"\n")
        done, total = 0, None
        reading = asyncio.create_task(child.stdout.readline())
        while not self.stopped:
            finished, _ = await asyncio.wait([reading], timeout=_IDLE_SECONDS)
            if finished:
                line = reading.result()
                said: dict[str, Any] = orjson.loads(line) if line else {"error": _ENDED}
                if "report" in said or "error" in said:
                    await asyncio.to_thread(_end, session, found.id, said)
                    return
                done, total = said["done"], said["total"]
                reading = asyncio.create_task(child.stdout.readline())
            if not await asyncio.to_thread(session.progress, found.id, done, total):
                await asyncio.to_thread(session.end, found.id, "cancelled")
                break
        reading.cancel()


def _end(session: AuditSession, number: int, said: Mapping[str, Any]) -> None:
    if "error" in said:
        session.end(number, "failed", error=str(said["error"]))
    else:
        session.end(number, "done", report=orjson.dumps(said["report"]).decode())
