"""The error of a gateway that neither accepted nor rejected an event in time."""

from typing import Any

from stack.errors import UnavailableError


def unavailable(gateway: str, answer: dict[str, Any]) -> UnavailableError:
    """Return the error for the last `answer` about an event that is no longer retried."""
    detail = answer.get("detail") or "it did not answer in time"
    problem = f"it answered {answer['status']}: {detail}" if "status" in answer else detail
    return UnavailableError(
        f"The gateway at {gateway} did not accept events: {problem}.",
        fix="Is it running, and is Kafka? Its /readyz and its log say more.",
    )
