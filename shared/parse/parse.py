"""SORT's first step: parses a batch's values into events; values of the same layout are parsed together."""

from typing import Final

import numpy as np
import pyarrow as pa

from shared.errors import UserError
from shared.parse import one_by_one, same_layout
from shared.parse.events import Events, RowIndices, merge

#: Minimum values to match against a template; fewer values are cheaper to parse one by one.
_MIN_VALUES: Final = 64
#: Maximum templates tried on one batch; values that match no template are parsed one by one.
_MAX_TEMPLATES: Final = 4


def read(values: pa.BinaryArray) -> Events:
    """Parse `values`; return one row for each value, in order, and an error for each invalid value."""
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
        except pa.ArrowInvalid:  # invalid UTF-8, or an impossible date: the slow path below finds it
            break
        parts.append((left[matches], Events(columns)))
        unmatched[left[matches]] = False
        left = left[1:][~matches[1:]]
    if unmatched.any() or not parts:
        rest = np.flatnonzero(unmatched)
        parts.append((rest, one_by_one.read(values.take(pa.array(rest)).to_pylist())))
    return merge(parts)


def _template_of(value: bytes | None) -> same_layout.Template | None:
    """Return the template of `value`, or None if it is not an event."""
    parsed = one_by_one.read_one(value)
    return None if value is None or isinstance(parsed, UserError) else same_layout.template_of(value)
