"""One byte budget over all requests in flight, so that memory is bounded when Kafka is slow.

aiokafka bounds a partition's batch, not what waits before it; a thousand slow requests
would otherwise be held in full.
"""

from shared.errors import OVERLOADED, InfrastructureError


class ByteBudget:
    """Counts the bytes that are held now, against `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def reserve(self, size: int) -> None:
        """Count `size` more bytes, or none and raise `InfrastructureError` OVERLOADED over the limit."""
        if self.held + size > self.limit:
            raise InfrastructureError(OVERLOADED, f"{self.held} of {self.limit} bytes are in flight")
        self.held += size

    def add(self, size: int) -> None:
        """Count `size` bytes that exist already (an answer, a copy for Kafka), over the limit if need be."""
        self.held += size

    def release(self, size: int) -> None:
        """Count `size` bytes less: they were freed."""
        self.held -= size
