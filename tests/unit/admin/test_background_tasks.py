"""Background tasks of the admin service continue after any error, until they are stopped."""

import asyncio

import pytest

from services.admin import background_tasks
from services.admin.background_tasks import SessionTask
from services.admin.dead_letters.ingester import DeadLetterIngester
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError, OnrampError
from shared.kafka_security import Brokers


def test_dead_letter_ingester_reports_an_unexpected_error_and_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_tasks, "_RETRY_SECONDS", 0.0)

    async def keep() -> list[str]:
        ingester, states = DeadLetterIngester(Brokers("nowhere:1"), "host=nowhere"), list[str]()

        async def fail_once() -> None:
            states.append(f"{ingester.status.state} {ingester.status.reason}")
            if len(states) == 1:
                raise LookupError("a value that is for nobody")
            ingester.stop()

        monkeypatch.setattr(ingester, "_work_once", fail_once)
        await ingester.run()
        return states

    assert asyncio.run(keep()) == [
        "starting ",
        "waiting failed with an unexpected error, see the log (LookupError)",
    ]


class Opened:
    """A session that counts how often it is closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class Task(SessionTask[Opened]):
    """Loses its first session, is a standby once, and then works."""

    retry_seconds = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Opened] = []
        self.said: list[str] = []

    def _open(self) -> Opened | None:
        if len(self.said) == 1:
            return None
        self.sessions.append(Opened())
        return self.sessions[-1]

    async def _work(self, session: Opened) -> None:
        assert session is self.sessions[-1]
        if not self.said:
            raise InfrastructureError(DATABASE_UNAVAILABLE, "lost")
        self.stop()

    def _waits(self, error: OnrampError) -> None:
        self.said.append(error.detail)

    def _stands_by(self) -> None:
        self.said.append("standby")


def test_a_session_is_closed_after_a_failure_and_at_the_end_and_opened_again() -> None:
    task = Task()
    asyncio.run(task.run())
    assert task.said == ["lost", "standby"]
    assert [session.closed for session in task.sessions] == [1, 1]
