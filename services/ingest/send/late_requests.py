"""Fails requests whose deadline has passed, and says whether their events may still reach Kafka."""

from collections.abc import Collection

from services.ingest.send.kafka_producer import unknown_outcome
from services.ingest.send.partition_queue import InFlightBatch, RequestSlice
from shared.errors import KAFKA_UNREACHABLE, InfrastructureError


def fail_late(late: Collection[RequestSlice], seconds: float) -> None:
    """Fail slices whose deadline of `seconds` has passed.

    A waiting batch whose slices are all late is abandoned: it is never sent, so its events are
    certainly not on Kafka. A batch that is sent later for other requests includes the late events:
    their outcome is unknown.
    """
    abandoned = {each.batch for each in late if each.batch is not None and _is_abandoned(each.batch, late)}
    for slice_ in late:
        if not slice_.future.done():
            slice_.future.set_result(_deadline_error(seconds, may_be_sent=slice_.batch not in abandoned))


def _is_abandoned(batch: InFlightBatch, late: Collection[RequestSlice]) -> bool:
    return not batch.is_sent and all(slice_.future.done() or slice_ in late for slice_ in batch.slices)


def _deadline_error(seconds: float, *, may_be_sent: bool) -> InfrastructureError:
    if may_be_sent:
        return unknown_outcome(f"no acknowledgement within {seconds:g} s")
    return InfrastructureError(KAFKA_UNREACHABLE, f"it could not be sent within {seconds:g} s")
