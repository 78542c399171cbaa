"""Background tasks of the admin service: whatever happens to one, it works on until it is stopped."""

import asyncio

import pytest

from services.admin import background_tasks
from services.admin.dead_letters.ingester import DeadLetterIngester
from shared.kafka_security import Brokers


def test_a_keeper_that_fails_for_a_reason_nobody_foresaw_says_so_and_begins_again(
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

        monkeypatch.setattr(ingester, "_keep", fail_once)
        await ingester.run()
        return states

    assert asyncio.run(keep()) == [
        "starting ",
        "waiting failed with an unexpected error, see the log (LookupError)",
    ]
