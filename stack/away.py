"""A gateway that gave no verdict in time, as an error for people."""

from typing import Any

from stack.errors import UnavailableError


def unavailable(gateway: str, said: dict[str, Any]) -> UnavailableError:
    """The error for what was last `said` about an event that was given up."""
    detail = said.get("detail") or "it did not answer in time"
    problem = f"it answered {said['status']}: {detail}" if "status" in said else detail
    return UnavailableError(
        f"The gateway at {gateway} did not accept events: {problem}.",
        fix="Is it running, and is Kafka? Its /readyz and its log say more.",
    )
