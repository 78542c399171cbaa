"""The errors that end a writer permanently, and the exit codes for its supervisor."""

import logging
from typing import Final

from shared.errors import DATABASE_NEWER, FENCED, Fault, InfrastructureError

log = logging.getLogger(__name__)

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_FENCED: Final = 3
EXIT_TOO_OLD: Final = 4

_CODES: Final[dict[Fault, int]] = {FENCED: EXIT_FENCED, DATABASE_NEWER: EXIT_TOO_OLD}
_MESSAGES: Final = {
    EXIT_FENCED: "a newer writer has taken over, this one ends",
    EXIT_TOO_OLD: "a newer Onramp has worked here, this one touches nothing and ends",
}


def ends(error: InfrastructureError) -> bool:
    """Return whether `error` is permanent, so that a restart of this writer cannot help."""
    return error.fault in _CODES


def code_of(error: InfrastructureError) -> int:
    """Return the exit code for `error`, for which `ends` is true; log the error."""
    code = _CODES[error.fault]
    log.error(_MESSAGES[code], extra={"reason": error.detail})
    return code
