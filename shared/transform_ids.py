"""The ids of a transform's outputs, which the engine sets and operators search for."""

import hashlib
from typing import Final

#: Maximum characters of an event's id.
_MAX_ID: Final = 128
_SHA_DIGITS: Final = 64


def output_id(transform: str, source_id: str, k: int) -> bytes:
    """Return the id of output number `k`, from 1; it is equal in each attempt, so repeats are detected.

    A longer id than an envelope may have is cut, and ends with the SHA-256 of the whole.
    """
    whole = f"{transform}:{source_id}" if k == 1 else f"{transform}:{source_id}:{k}"
    if len(whole) > _MAX_ID:
        digest = hashlib.sha256(whole.encode()).hexdigest()
        whole = f"{whole[: _MAX_ID - _SHA_DIGITS - 1]}:{digest}"
    return whole.encode()
