"""Renders a password as the verifier that Postgres stores (RFC 5803): the DBA's SQL has no password."""

import base64
import hashlib
import hmac
import secrets
from typing import Final

_ITERATIONS: Final = 4096
_SALT_BYTES: Final = 16


def verifier(password: str) -> str:
    """Return a SCRAM-SHA-256 verifier; empty for a password beyond ASCII, which SASLprep may change."""
    if not password or not password.isascii():
        return ""
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_, stored_, server_ = (base64.b64encode(each).decode() for each in (salt, stored, server))
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt_}${stored_}:{server_}"
