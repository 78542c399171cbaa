"""The gateway's TLS context: created in each worker, because a context cannot be sent to a process.

A file of its own: uvicorn's workers import it by its name, and `__main__` is another module there.
"""

import ssl

from services.ingest.settings import IngestSettings


def tls_context(*_: object) -> ssl.SSLContext:
    """Create the context (uvicorn's `ssl_context_factory`).  Raises `OSError` for unusable files."""
    context = IngestSettings().tls()
    if context is None:
        raise LookupError("the settings name no certificate any more")
    return context
