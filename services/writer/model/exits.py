"""What ends a writer for good, and by which exit code its supervisor learns of it."""

import logging
from typing import Final

from shared.errors import DATABASE_NEWER, FENCED, Fault, InfrastructureError

log = logging.getLogger(__name__)

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_FENCED: Final = 3
EXIT_TOO_OLD: Final = 4

_CODES: Final[dict[Fault, int]] = {FENCED: EXIT_FENCED, DATABASE_NEWER: EXIT_TOO_OLD}
_SAID: Final = {
    EXIT_FENCED: "a newer writer has taken over, this one ends",
    EXIT_TOO_OLD: "a newer Onramp has worked here, this one touches nothing and ends",
}


def ends(error: InfrastructureError) -> bool:
    """Whether no writer like this one can go on after `error`."""
    return error.fault in _CODES


def code_of(error: InfrastructureError) -> int:
    """The exit code after such an error; says why."""
    code = _CODES[error.fault]
    log.error(_SAID[code], extra={"reason": error.detail})
    return code
