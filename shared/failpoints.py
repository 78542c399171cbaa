"""Named points at which a test can stop a service in the middle of its work.

Off unless ``ONRAMP_FAILPOINTS`` is set, e.g. ``writer.before_commit=kill``; several are
separated by commas. Actions: ``kill`` (SIGKILL to the process group's leader named by
``ONRAMP_FAILPOINT_PID``, else to this process), ``pause`` (touch the file
``ONRAMP_FAILPOINT_DIR/<name>`` and wait until it is removed). A pause shows the test
that the point was reached, by the file. Points with data (`meet`) have a third action:
``raise``, or ``raise:TEXT`` only for data that contains the text, raises an unexpected exception.
"""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_POLL_SECONDS: Final = 0.02


def _armed(configured: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in configured.split(",") if pair)


_ARMED: Final = _armed(os.environ.get("ONRAMP_FAILPOINTS", ""))


class FailpointError(Exception):
    """An exception that the service does not expect."""


def reach(name: str) -> None:
    """Run the action that the environment sets for this point; usually none, at no cost."""
    action = _ARMED.get(name) if _ARMED else None
    if action == "kill":
        os.kill(int(os.environ.get("ONRAMP_FAILPOINT_PID", os.getpid())), signal.SIGKILL)
    elif action == "pause":
        _pause(Path(os.environ["ONRAMP_FAILPOINT_DIR"]) / name)


def meet(name: str, columns: Iterable[Iterable[object]]) -> None:
    """Raise if the environment sets this point and a value contains its text; usually reads nothing."""
    action, _, text = _ARMED.get(name, "").partition(":") if _ARMED else ("", "", "")
    if action == "raise" and any(text in str(value) for column in columns for value in column):
        raise FailpointError(name)


def _pause(flag: Path) -> None:
    flag.touch()
    while flag.exists():
        time.sleep(_POLL_SECONDS)
