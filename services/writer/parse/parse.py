"""SORT's first step: parses a batch's values into events, those of the same layout together."""

from typing import Final

import numpy as np
import pyarrow as pa

from services.writer.parse import one_by_one, same_layout
from services.writer.parse.events import Events, RowIndices, merge
from shared.errors import UserError

#: Fewer values than this are cheaper to parse one by one than to match against a template.
_MIN_VALUES: Final = 64
#: Templates tried on one batch; what matches none is parsed value by value.
_MAX_TEMPLATES: Final = 4


def read(values: pa.BinaryArray) -> Events:
    """Parse `values`; return one row for each, in order, and an error for each that is no event."""
    parts: list[tuple[RowIndices, Events]] = []
    unmatched = np.ones(len(values), dtype=bool)
    left = np.arange(len(values))
    for _ in range(_MAX_TEMPLATES):
        if len(left) < _MIN_VALUES:
            break
        candidates = values if len(left) == len(values) else values.take(pa.array(left))
        template = _template_of(candidates[0].as_py())
        if template is None:
            left = left[1:]
            continue
        try:
            matches, columns = same_layout.match(template, candidates)
        except pa.ArrowInvalid:  # invalid UTF-8, or an impossible date: the slow path below finds whose
            break
        parts.append((left[matches], Events(columns)))
        unmatched[left[matches]] = False
        left = left[1:][~matches[1:]]
    if unmatched.any() or not parts:
        rest = np.flatnonzero(unmatched)
        parts.append((rest, one_by_one.read(values.take(pa.array(rest)).to_pylist())))
    return merge(parts)


def _template_of(value: bytes | None) -> same_layout.Template | None:
    """Return the template of `value`, or None when it is no event."""
    parsed = one_by_one.read_one(value)
    return None if value is None or isinstance(parsed, UserError) else same_layout.template_of(value)
