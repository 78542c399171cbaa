"""Telling the sender what became of its events; a callback that raises stops nothing."""

import logging
from collections.abc import Callable
from typing import Any, Final

from .events import Verdict

_log: Final = logging.getLogger("onramp_client")

OnSettled = Callable[[str, str, dict[str, Any]], None]


class Telling:
    """Calls `on_settled` for each verdict."""

    def __init__(self, on_settled: OnSettled | None) -> None:
        self._on_settled = on_settled
        self._said = False

    def tell(self, verdicts: list[Verdict]) -> int:
        """Tell each; returns how often the callback raised."""
        if self._on_settled is None:
            return 0
        return sum(self._failed(self._on_settled, verdict) for verdict in verdicts)

    def _failed(self, on_settled: OnSettled, verdict: Verdict) -> bool:
        event, outcome, said = verdict
        try:
            on_settled(event.id, outcome, said)
        except BaseException as error:  # noqa: BLE001 - even SystemExit would end the thread that sends
            self._say(error)
            return True
        return False

    def _say(self, error: BaseException) -> None:
        if not self._said:
            self._said = True
            _log.error(
                "on_settled raised %s: the events are settled all the same; catch it there (said once)",
                type(error).__name__,
            )
