"""Polls of one URL by one key share an answer for an interval, and never one from before a write."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from services.admin.api.shared_answers import Answer, SharedAnswers, whole_answer

TABS = 10


class Page:
    """A page whose body is the number of its computations."""

    def __init__(self, status: int = 200) -> None:
        self.count = 0
        self.status = status
        self.gate = asyncio.Event()

    async def __call__(self) -> tuple[Answer, float]:
        self.count += 1
        number = str(self.count).encode()
        await self.gate.wait()
        return Answer(self.status, [(b"etag", number)], number), 4.5


def run(test: Callable[[SharedAnswers, list[float]], Awaitable[None]]) -> None:
    now = [0.0]

    async def main() -> None:
        await test(SharedAnswers(lambda: now[0]), now)

    asyncio.run(main())


def test_ten_tabs_cost_one_computation_for_each_interval() -> None:
    async def test(answers: SharedAnswers, now: list[float]) -> None:
        page = Page()
        polls = [asyncio.create_task(answers.of("key", page)) for _ in range(TABS)]
        await asyncio.sleep(0)
        page.gate.set()
        assert {answer.body for answer in await asyncio.gather(*polls)} == {b"1"}
        now[0] = 4.0
        assert (await answers.of("key", page)).body == b"1"
        now[0] = 5.0  # the next poll of the first tab
        assert (await answers.of("key", page)).body == b"2"
        assert (await answers.of("another key", page)).body == b"3"

    run(test)


def test_no_poll_gets_an_answer_from_before_a_write_or_before_its_page_was_loaded() -> None:
    async def test(answers: SharedAnswers, _: list[float]) -> None:
        page = Page()
        early = asyncio.create_task(answers.of("key", page))
        await asyncio.sleep(0)
        answers.forget_all()  # while the first one is computed
        page.gate.set()
        assert (await early).body == b"1"
        assert (await answers.of("key", page)).body == b"2"
        answers.forget_all()
        assert (await answers.of("key", page)).body == b"3"
        answers.forget("key")
        assert (await answers.of("key", page)).body == b"4"

    run(test)


def test_an_error_is_not_shared() -> None:
    async def test(answers: SharedAnswers, _: list[float]) -> None:
        page = Page(503)
        page.gate.set()
        assert [(await answers.of("key", page)).body for _ in range(2)] == [b"1", b"2"]

        async def failing() -> tuple[Answer, float]:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            await answers.of("key", failing)
        assert (await answers.of("key", page)).body == b"3"

    run(test)


def test_a_tab_that_has_the_answer_gets_304() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(scope: Any, _: Any, send: Any) -> None:
        assert scope["headers"] == [(b"cookie", b"a")]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"etag", b'"1"')]})
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        await send({"type": "http.response.body", "body": b"second"})

    async def main() -> None:
        scope = {"headers": [(b"cookie", b"a"), (b"if-none-match", b'"1"')]}
        answer = await whole_answer(app, scope, send)  # type: ignore[arg-type]
        assert answer.body == b"first second"
        await answer.send(send, b'"1"')
        await answer.send(send, b"")

    asyncio.run(main())
    assert [(each["status"], sent[n + 1]["body"]) for n, each in enumerate(sent) if "status" in each] == [
        (304, b""),
        (200, b"first second"),
    ]
