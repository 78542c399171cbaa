"""All transforms at a glance: registry, deployed version, state, totals and lag."""

from typing import Any, Final

from services.ops.transforms.kafka_totals import TransformTotals
from services.ops.transforms.reader import TransformFacts
from shared.registry.entries import Snapshot
from shared.registry.transforms import Transform
from shared.transform_state import INITIAL, TransformState

#: The fields of a state that are shown.
_STATE: Final = ("state", "reason", "at", "by")


def overview(snapshot: Snapshot, facts: TransformFacts) -> list[dict[str, Any]]:
    """Return a document for each transform of the registry, by name."""
    return [
        _view(name, each, facts.states.get(name), facts.totals.get(name))
        for name, each in sorted(snapshot.transforms.items())
    ]


def _view(
    name: str, transform: Transform, state: TransformState | None, total: TransformTotals | None
) -> dict[str, Any]:
    tag = (state or INITIAL).tag
    if transform.source is None:
        state = TransformState(state="not_deployed")
    return {
        "name": name,
        "from": transform.source_type,
        "to": list(transform.to),
        "lanes": transform.lanes,
        "lookups": list(transform.lookups),
        "digest": transform.digest,
        **{field: getattr(state or INITIAL, field) for field in _STATE},
        "state_tag": tag,
        **(total or TransformTotals()).as_dict(transform.lanes),
    }
