"""Sessions end in time: cookies after eight hours, login links after ten minutes or their first use."""

import time
from dataclasses import dataclass, field

import pytest

from services.admin.api.operators import Operators
from services.admin.ui.sessions import LINK_SECONDS, SECONDS, Sessions
from shared.errors import UserError
from shared.registry.memory import MemoryRegistry

KEY = f"onramp_operator_{'k' * 30}"
ADDRESS = "192.0.2.1"


@dataclass
class Clock:
    """A time that a test sets."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


class Memory:
    """The shared state of replicas, in memory."""

    def __init__(self) -> None:
        self._ended: set[str] = set()

    def secret(self) -> bytes:
        return b"a secret"

    def end(self, session: str, seconds: float) -> None:
        assert seconds == SECONDS
        self._ended.add(session)

    def has_ended(self, session: str) -> bool:
        return session in self._ended


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(Operators(MemoryRegistry({}), dev_key=KEY), Memory(), clock)


def test_a_cookie_is_refused_after_eight_hours(sessions: Sessions, clock: Clock) -> None:
    clock.now = float(int(clock.now))
    cookie = sessions.cookie(sessions.log_in(KEY, ADDRESS))
    clock.now += 8 * 3600 - 1
    assert sessions.session_of(cookie) is not None
    clock.now += 1
    assert sessions.session_of(cookie) is None


def test_a_cookie_of_the_future_is_refused(sessions: Sessions, clock: Clock) -> None:
    cookie = sessions.cookie(sessions.log_in(KEY, ADDRESS))
    clock.now -= 60
    assert sessions.session_of(cookie) is None


def test_a_logout_ends_one_session_of_the_key(sessions: Sessions) -> None:
    session = sessions.log_in(KEY, ADDRESS)
    first, second = sessions.cookie(session), sessions.cookie(session)
    sessions.end(first)
    assert sessions.session_of(first) is None
    assert sessions.session_of(second) is not None


def test_a_foreign_cookie_is_neither_a_session_nor_ended(sessions: Sessions) -> None:
    body, _, signature = sessions.cookie(sessions.log_in(KEY, ADDRESS)).partition(".")
    for cookie in ("", ".", f"{body}.", f"{body}.{signature[:-1]}", f"x{body}.{signature}"):
        sessions.end(cookie)
        assert sessions.session_of(cookie) is None
    assert sessions.session_of(f"{body}.{signature}") is not None


@pytest.mark.parametrize(("seconds", "is_valid"), [(LINK_SECONDS - 1, True), (LINK_SECONDS, False)])
def test_a_login_link_is_refused_after_ten_minutes(
    sessions: Sessions, clock: Clock, seconds: int, *, is_valid: bool
) -> None:
    assert LINK_SECONDS == 600
    link = sessions.new_link(sessions.log_in(KEY, ADDRESS))
    clock.now += seconds
    if is_valid:
        assert sessions.use_link(link, ADDRESS).name == "operator"
    else:
        with pytest.raises(UserError, match="ten minutes"):
            sessions.use_link(link, ADDRESS)


def test_a_login_link_is_refused_at_its_second_use(sessions: Sessions) -> None:
    link = sessions.new_link(sessions.log_in(KEY, ADDRESS))
    sessions.use_link(link, ADDRESS)
    with pytest.raises(UserError, match="was used"):
        sessions.use_link(link, ADDRESS)
