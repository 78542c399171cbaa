"""Background tasks of the admin service: whatever happens to one, it works on until it is stopped."""

import asyncio

import pytest

from services.admin import background_tasks
from services.admin.dead_letters.ingester import Keeper
from shared.kafka_security import Brokers


def test_a_keeper_that_fails_for_a_reason_nobody_foresaw_says_so_and_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_tasks, "_AGAIN_SECONDS", 0.0)

    async def keep() -> list[str]:
        keeper, states = Keeper(Brokers("nowhere:1"), "host=nowhere"), list[str]()

        async def fail_once() -> None:
            states.append(f"{keeper.status.state} {keeper.status.reason}")
            if len(states) == 1:
                raise LookupError("a value that is for nobody")
            keeper.stop()

        monkeypatch.setattr(keeper, "_keep", fail_once)
        await keeper.run()
        return states

    assert asyncio.run(keep()) == [
        "starting ",
        "waiting it fails for a reason that is in the log (LookupError)",
    ]
