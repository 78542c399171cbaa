"""The limits of names in Postgres, which services check before the server cuts a name."""

from typing import Final

#: Maximum bytes of a name.  Postgres truncates longer names, and another object could have the short name.
MAX_NAME_BYTES: Final = 63


def is_name(text: str) -> bool:
    """Return whether Postgres accepts `text` unchanged as a name: 1 to `MAX_NAME_BYTES` bytes, and no NUL."""
    return 0 < len(text.encode()) <= MAX_NAME_BYTES and "\0" not in text
