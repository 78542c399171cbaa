"""Cursors: where the next page begins, signed, so that a reader can neither make one up nor mix lists.

A cursor belongs to one list and its filters; it is refused with others, where its position has no meaning.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64Error
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import orjson

from shared.errors import BAD_CURSOR, UserError

_SIGNATURE_BYTES: Final = 16


def encode(key: bytes, listed: str, filters: Mapping[str, Any], position: Sequence[Any]) -> str:
    """Return the cursor for the entries after `position` in the list."""
    body = orjson.dumps(list(position))
    return urlsafe_b64encode(_signature(key, listed, filters, body) + body).rstrip(b"=").decode()


def decode(key: bytes, listed: str, filters: Mapping[str, Any], cursor: str) -> list[Any]:
    """Return a cursor's position.  Raises `UserError` BAD_CURSOR."""
    try:
        given = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
    except (NotBase64Error, ValueError):
        given = b""
    signature, body = given[:_SIGNATURE_BYTES], given[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(key, listed, filters, body)):
        raise UserError(BAD_CURSOR, "the cursor was changed, or belongs to another list or other filters")
    position: list[Any] = orjson.loads(body)
    return position


def _signature(key: bytes, listed: str, filters: Mapping[str, Any], body: bytes) -> bytes:
    of = orjson.dumps([listed, sorted((n, v) for n, v in filters.items() if v is not None)])
    return hmac.digest(key, len(of).to_bytes(4) + of + body, sha256)[:_SIGNATURE_BYTES]
