"""A byte budget over all requests in flight, which bounds memory when Kafka is slow.

aiokafka bounds a partition's batch, not the events that wait before it; a thousand slow requests
would otherwise be in memory in full.
"""

from shared.errors import OVERLOADED, InfrastructureError


class ByteBudget:
    """Counts the bytes in use against `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def reserve(self, size: int) -> None:
        """Count `size` more bytes. Over the limit, count none and raise `InfrastructureError` OVERLOADED."""
        if self.used + size > self.limit:
            raise InfrastructureError(OVERLOADED, f"{self.used} of {self.limit} bytes are in flight")
        self.used += size

    def add(self, size: int) -> None:
        """Count `size` bytes that exist already (an answer, a copy for Kafka), even over the limit."""
        self.used += size

    def release(self, size: int) -> None:
        """Subtract `size` freed bytes."""
        self.used -= size
