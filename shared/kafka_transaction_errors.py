"""Errors of a transactional producer: whether a later holder of its id has taken over."""

from aiokafka.errors import ProducerFenced

from shared.errors import FENCED, KAFKA_UNAVAILABLE, Fault, InfrastructureError


def transaction_failure(error: BaseException, text: str) -> InfrastructureError:
    """Return FENCED if a later holder of the id has taken over, else KAFKA_UNAVAILABLE."""
    fault: Fault = FENCED if _is_fenced(error) else KAFKA_UNAVAILABLE
    return InfrastructureError(fault, f"{text}: {type(error).__name__}")


def _is_fenced(error: BaseException | None) -> bool:
    """Aiokafka wraps some of its errors."""
    while error is not None:
        if isinstance(error, ProducerFenced):
            return True
        error = error.__cause__
    return False
