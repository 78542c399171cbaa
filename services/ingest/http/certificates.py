"""What the door shows over TLS: made by each worker itself, because no context travels to a process.

A file of its own: uvicorn's workers import it by its name, and `__main__` is another one there.
"""

import ssl

from services.ingest.settings import IngestSettings


def shown(*_: object) -> ssl.SSLContext:
    """Uvicorn's `ssl_context_factory`.  Raises `OSError` for files that cannot be used."""
    context = IngestSettings().tls()
    if context is None:
        raise LookupError("the settings name no certificate any more")
    return context
