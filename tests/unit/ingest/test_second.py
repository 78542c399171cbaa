"""What waits at the second producer asks for its leader with pauses, and not for ever."""

from types import SimpleNamespace
from typing import Any

import pytest

from services.ingest.send import second_producer
from services.ingest.send.second_producer import Leaderless, asking_slowly

pytestmark = pytest.mark.anyio


def test_an_election_is_waited_for_and_a_topic_that_is_gone_is_not() -> None:
    now = [1000.0]
    expired = Leaderless(lambda: now[0])

    assert not expired()
    now[0] += 29
    assert not expired()
    now[0] += 2
    assert expired()


async def test_metadata_are_asked_for_with_a_pause_however_fast_the_answers_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[Any] = []

    async def pause(seconds: float) -> None:
        did.append(seconds)

    async def ask(*given: Any) -> bool:
        did.append(given)
        return True

    monkeypatch.setattr(second_producer.asyncio, "sleep", pause)
    producer = SimpleNamespace(client=SimpleNamespace(_metadata_update=ask))
    asking_slowly(producer)

    assert await producer.client._metadata_update("cluster", "topics")
    assert did == [0.1, ("cluster", "topics")]
