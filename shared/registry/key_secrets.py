"""Creates and rotates the secrets of API keys, for the command line and the API."""

import hashlib
import secrets
from datetime import datetime

from shared.registry.entries import ApiKey, KeyHash


def new_key(identifier: str) -> tuple[str, str]:
    """Return a new key for its holder, and the SHA-256 for ``onramp.yaml``."""
    key = f"onramp_{identifier}_{secrets.token_urlsafe(32)}"
    return key, hashlib.sha256(key.encode()).hexdigest()


def rotated(key: ApiKey, sha256: str, until: datetime) -> ApiKey:
    """Return the key with a new secret; the other secrets end at `until` at the latest."""
    ending = (KeyHash(sha256=each.sha256, expires=min(each.expires or until, until)) for each in key.hashes)
    return key.model_copy(update={"hashes": (KeyHash(sha256=sha256), *ending)})
