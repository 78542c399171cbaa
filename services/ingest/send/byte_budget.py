"""One byte budget over all requests in flight, so that memory is bounded when Kafka is slow.

aiokafka bounds a partition's batch, not what waits before it; a thousand slow requests
would otherwise be held in full.
"""

from shared.errors import OVERLOADED, InfrastructureError


class ByteBudget:
    """How many bytes are held now, and the most that may be."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> None:
        """Hold `size` bytes more, or refuse with OVERLOADED and hold nothing more."""
        if self.held + size > self.limit:
            raise InfrastructureError(OVERLOADED, f"{self.held} of {self.limit} bytes are in flight")
        self.held += size

    def hold(self, size: int) -> None:
        """Count bytes that exist already (an answer, a copy for Kafka), over the limit if need be."""
        self.held += size

    def give(self, size: int) -> None:
        """The bytes are gone."""
        self.held -= size
