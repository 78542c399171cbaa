"""Applies the gateway's checks to events: of their name, their size and their JSON Schema."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.plan.reasons import Reason, pattern, refusal
from services.writer.plan.rules import UNREGISTERED, Rules, TypeRules
from shared.contracts.faults import faults
from shared.contracts.json_schema import CompiledSchema, compile_schema
from shared.errors import EVENT_TOO_LARGE, SCHEMA_MISMATCH, UNKNOWN_EVENT_NAME, UserError
from shared.parse.events import RowIndices, group

#: Maximum compiled schemas that a process caches.
_MAX_CACHED: Final = 4096
_PAYLOAD: Final = "/payload"

Refused = dict[int, list[Reason]]


def refused(events: pa.RecordBatch, sizes: pa.Array, sides: Sequence[Rules]) -> list[Refused]:
    """Return, for each of `sides`, the refused `events` (`events.COLUMNS`) by row, with all reasons.

    `sizes`: bytes of the events.  An event without a name is not an envelope, and no schema applies to it.
    A schema that sides share is checked once.
    """
    out: list[Refused] = [defaultdict(list) for _ in sides]
    for name, rows in group(events.column("event_name")).items():
        rules = [side.types.get(name, UNREGISTERED) for side in sides]
        for side, of_type, found in zip(sides, rules, out, strict=True):
            if side.refuses_unknown and name not in side.types:
                error = UserError(UNKNOWN_EVENT_NAME, "this event name is not registered", "/event_name")
                found.update({int(i): [refusal(error)] for i in rows})
            elif of_type.max_bytes is not None:
                found.update(_too_large(rows, sizes, of_type.max_bytes))
        _check_schemas(rows, events.column("body"), sizes, rules, out)
    return out


def _too_large(rows: RowIndices, sizes: pa.Array, limit: int) -> Iterator[tuple[int, list[Reason]]]:
    large = pc.greater(sizes.take(pa.array(rows)), limit).fill_null(False).to_numpy(zero_copy_only=False)
    error = UserError(EVENT_TOO_LARGE, f"more than {limit} bytes, this type's limit")
    for i in rows[large].tolist():
        yield i, [refusal(error)]


def _check_schemas(
    rows: RowIndices, bodies: pa.Array, sizes: pa.Array, rules: Sequence[TypeRules], out: Sequence[Refused]
) -> None:
    """Add to `out` the events that each side's schema refuses, unless they are refused already."""
    by_schema = _by_schema(rules)
    if not by_schema:
        return
    checks = [(_compiled(schema), sides) for schema, sides in by_schema.items()]
    taken = (column.take(pa.array(rows)).to_pylist() for column in (bodies, sizes))
    for i, body, size in zip(rows.tolist(), *taken, strict=True):
        if body is None:  # the value could not be parsed
            continue
        payload = orjson.loads(body)
        for schema, sides in checks:
            if reasons := _reasons(schema, payload, size):
                for side in sides:
                    out[side].setdefault(i, reasons)


def _by_schema(rules: Sequence[TypeRules]) -> dict[bytes, list[int]]:
    sides: dict[bytes, list[int]] = defaultdict(list)
    for side, each in enumerate(rules):
        if each.schema is not None:
            sides[each.schema].append(side)
    return sides


def _reasons(schema: CompiledSchema, payload: Any, size: int) -> list[Reason]:
    if schema.cost.reason_against(payload, size):  # it names the event's size
        return [refusal(UserError(EVENT_TOO_LARGE, "checking it by this type's schema could take too long"))]
    if schema.is_valid(payload):
        return []
    listed = faults(schema, payload, size)
    code = SCHEMA_MISMATCH.code
    return list(dict.fromkeys(Reason(code, pattern(each["pointer"]), each["detail"]) for each in listed))


@lru_cache(_MAX_CACHED)
def _compiled(schema: bytes) -> CompiledSchema:
    return compile_schema(orjson.loads(schema))
