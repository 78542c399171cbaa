"""A record that the client cannot read is passed over, and takes no other with it."""

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from shared.polling import poll


class _Place(NamedTuple):
    topic: str
    partition: int


ODD = object()
A, B = _Place("onramp.user_errors", 0), _Place("onramp.user_errors", 1)


class _Consumer:
    """As aiokafka's consumer: records taken of one partition are lost when the next one raises."""

    def __init__(self, logs: dict[_Place, list[Any]]) -> None:
        self._logs = logs
        self._at = dict.fromkeys(logs, 0)

    def assignment(self) -> set[_Place]:
        return set(self._logs)

    async def position(self, p: _Place) -> int:
        return self._at[p]

    def seek(self, p: _Place, at: int) -> None:
        self._at[p] = at

    async def getmany(self, *places: _Place, timeout_ms: int, max_records: int = 1000) -> dict[Any, Any]:
        assert timeout_ms
        found = {}
        for p in places or self._logs:
            values = self._logs[p][self._at[p] :][:max_records]
            if ODD in values:
                raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a header's key")
            self._at[p] += len(values)
            found[p] = [SimpleNamespace(value=v) for v in values]
        return found


@pytest.mark.parametrize("places", [(A, B), (B, A), ()])
@pytest.mark.parametrize(
    "logs",
    [
        {A: [1, 2, 3], B: [4, ODD, 5]},
        {A: [1, ODD, 2], B: [ODD, 4]},
        {A: [ODD, ODD], B: [4, 5, ODD]},
    ],
)
def test_a_record_that_cannot_be_read_takes_no_other_with_it(
    logs: dict[_Place, list[Any]], places: tuple[_Place, ...]
) -> None:
    consumer, passed, found = _Consumer(logs), [], defaultdict(list)

    async def read() -> None:
        while any([await consumer.position(p) < len(log) for p, log in logs.items()]):
            polled = await poll(consumer, lambda *at: passed.append(at), *places, timeout_ms=1)
            for p, records in polled.items():
                found[p] += [r.value for r in records]

    asyncio.run(read())
    assert found == {p: [v for v in log if v is not ODD] for p, log in logs.items()}
    assert sorted(passed) == [
        (*p, at) for p, log in sorted(logs.items()) for at, v in enumerate(log) if v is ODD
    ]
