"""Calls the sender's callback with the verdicts of its events; an exception in it has no effect."""

import logging
from collections.abc import Callable
from typing import Any, Final

from .events import Verdict

_log: Final = logging.getLogger("onramp_client")

OnSettled = Callable[[str, str, dict[str, Any]], None]


class Callbacks:
    """Calls `on_settled` for each verdict."""

    def __init__(self, on_settled: OnSettled | None) -> None:
        self._on_settled = on_settled
        self._logged = False

    def report(self, verdicts: list[Verdict]) -> int:
        """Call the callback for each verdict; return the number of calls that raised."""
        if self._on_settled is None:
            return 0
        return sum(self._failed(self._on_settled, verdict) for verdict in verdicts)

    def _failed(self, on_settled: OnSettled, verdict: Verdict) -> bool:
        event, outcome, document = verdict
        try:
            on_settled(event.id, outcome, document)
        except BaseException as error:  # noqa: BLE001 - even SystemExit would end the sending thread
            self._log_once(error)
            return True
        return False

    def _log_once(self, error: BaseException) -> None:
        if not self._logged:
            self._logged = True
            _log.error(
                "on_settled raised %s: the events are settled nevertheless; catch it in the callback "
                "(logged once)",
                type(error).__name__,
            )
