"""Makes API keys: the gateway opens to what this makes, and the command line makes it."""

import hashlib
import secrets


def new_key(identifier: str) -> tuple[str, str]:
    """A new key for a person to keep, and the SHA-256 for ``onramp.yaml``."""
    key = f"onramp_{identifier}_{secrets.token_urlsafe(32)}"
    return key, hashlib.sha256(key.encode()).hexdigest()
