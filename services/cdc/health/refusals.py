"""Repeats a refusal without a new attempt until a growing pause is over: each attempt is a failed login."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

_FIRST_SECONDS: Final = 1.0
_MAX_SECONDS: Final = 30.0


class Refusals:
    """Remembers the last refusal of an attempt."""

    def __init__(
        self, is_refusal: Callable[[Exception], bool], clock: Callable[[], float] = monotonic
    ) -> None:
        """`is_refusal`: whether an error lasts until an operator acts; that of a starting server does not."""
        self._is_refusal = is_refusal
        self._clock = clock
        self._what: object = None
        self._error: Exception | None = None
        self._pause_s = self._due = 0.0

    @contextmanager
    def attempt(self, what: object) -> Iterator[None]:
        """Run the block, or raise its last refusal when `what` is the same and the pause is not over."""
        if self._error is not None and what == self._what and self._clock() < self._due:
            raise self._error
        try:
            yield
        except Exception as error:
            if not self._is_refusal(error):
                raise
            grown = min(self._pause_s * 2, _MAX_SECONDS) if what == self._what else 0.0
            self._pause_s = grown or _FIRST_SECONDS
            self._what, self._error, self._due = what, error, self._clock() + self._pause_s
            raise
        self._what = self._error = None
        self._pause_s = 0.0
