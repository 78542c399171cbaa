"""The Kafka key of an event whose type names a field of the payload as its key."""

from typing import Any, Final

from shared.errors import KEY_MISSING, UserError

_MAX_KEY_BYTES: Final = 1024


def key_at(payload: Any, pointer: str) -> bytes:
    """Return the string or number at the JSON Pointer `pointer` of `payload` as a key of 1 to 1,024 bytes.

    Raises:
        UserError: KEY_MISSING, there is no such value.
    """
    value = payload
    for escaped in pointer.split("/")[1:]:
        name = escaped.replace("~1", "/").replace("~0", "~")
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UserError(KEY_MISSING, "no string or number there", "/payload" + pointer)
    key = str(value).encode()
    if not 0 < len(key) <= _MAX_KEY_BYTES:
        raise UserError(KEY_MISSING, f"a key has 1 to {_MAX_KEY_BYTES} bytes", "/payload" + pointer)
    return key
