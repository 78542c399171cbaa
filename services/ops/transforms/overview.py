"""All transforms at a glance: registry, deployed version, state, totals and lag."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from services.ops.transforms.kafka_states import states
from services.ops.transforms.kafka_totals import TransformTotals, totals
from shared.kafka_security import Brokers
from shared.registry.entries import Snapshot
from shared.registry.transforms import Transform
from shared.transform_state import INITIAL, TransformState

#: The fields of a state that are shown.
_STATE: Final = ("state", "reason", "at", "by")


def overview(snapshot: Snapshot, brokers: Brokers) -> list[dict[str, Any]]:
    """Return a document for each transform of the registry, by name.  Raise `InfrastructureError`."""
    by_state, by_total = asyncio.run(_read(brokers)) if snapshot.transforms else ({}, {})
    return [
        _view(name, each, by_state.get(name), by_total.get(name))
        for name, each in sorted(snapshot.transforms.items())
    ]


async def _read(brokers: Brokers) -> tuple[Mapping[str, TransformState], Mapping[str, TransformTotals]]:
    return await states(brokers), await totals(brokers)


def _view(
    name: str, transform: Transform, state: TransformState | None, total: TransformTotals | None
) -> dict[str, Any]:
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
        **(total or TransformTotals()).as_dict(),
    }
