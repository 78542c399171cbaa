"""The steps of transforms: an event's outputs, and the event that an output is of."""

from collections.abc import Iterator
from typing import Any, Final

from services.ops.journey.evidence import Evidence, Transformation
from services.ops.journey.subject import Receipt
from services.ops.journey.timeline import Kind, Step
from services.ops.journey.transform_facts import MAX_OUTPUTS

#: Digits of a version that are printed.
_DIGITS: Final = 12


def parent_step(evidence: Evidence) -> Step | None:
    """Return the step that names the source event of an output; None for other events."""
    parent = evidence.parent
    if parent is None:
        return None
    name, _, digest = parent.version.partition("@")
    return Step(
        Kind.OUTPUT,
        f"is an output of {_short(parent.version)} for the event {parent.receipt}",
        receipt=evidence.receipt,
        facts={
            "transform": name,
            "version": digest,
            "event_names": [parent.event_name],
            "events": [{"id": None, "receipt": str(parent.receipt)}],
        },
    )


def transform_steps(evidence: Evidence) -> Iterator[Step]:
    """Yield a step for each transform that reads events of the type."""
    for each in evidence.transformations:
        yield _step(evidence.receipt, each)


def _step(receipt: Receipt, of: Transformation) -> Step:
    facts: dict[str, Any] = {"transform": of.transform, "event_names": list(of.event_types)}
    position = of.position
    if of.outputs:
        facts["version"] = of.version.partition("@")[2] or None
        facts["events"] = [
            {"id": each.id, "receipt": str(each.receipt) if each.receipt else None} for each in of.outputs
        ]
        named = (f"{each.id} ({each.receipt})" if each.receipt else each.id for each in of.outputs)
        text = (
            f"emitted {_count(len(of.outputs))} by {_short(of.version or of.transform)}: {', '.join(named)}"
        )
        return Step(Kind.EMITTED, text, receipt=receipt, facts=facts)
    if position is not None and receipt.offset < position.totals.first:
        text = f"is from before transform {of.transform}, which began at offset {position.totals.first}"
        return Step(Kind.NOT_TRANSFORMED, text, receipt=receipt, facts=facts)
    if position is None or receipt.offset >= position.next:
        before = "" if position is None else f", after {receipt.offset - position.next} other records"
        return Step(
            Kind.NOT_TRANSFORMED,
            f"is not processed by transform {of.transform} yet",
            receipt=receipt,
            ends=f"the transform reaches it{before}",
            facts=facts,
        )
    if of.is_whole:
        text = f"was dropped by transform {of.transform}: no output of it is on Kafka or in a table"
        return Step(Kind.DROPPED, text, receipt=receipt, facts=facts)
    text = f"was processed by transform {of.transform}: emitted or dropped, which is not known"
    return Step(Kind.UNKNOWN, text, receipt=receipt, facts=facts)


def _count(outputs: int) -> str:
    if outputs >= MAX_OUTPUTS:
        return f"at least {outputs} outputs"
    return "1 output" if outputs == 1 else f"{outputs} outputs"


def _short(version: str) -> str:
    name, at, digest = version.partition("@")
    return f"{name}{at}{digest[:_DIGITS]}"
