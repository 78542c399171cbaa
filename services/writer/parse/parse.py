"""SORT's first step: a batch's values as events.  Those that are written alike go together."""

from typing import Final

import numpy as np
import pyarrow as pa

from services.writer.parse import one_by_one, same_layout
from services.writer.parse.events import Events, Places, together
from shared.errors import UserError

#: From so many values on it pays to look for those that are written alike, in so many forms.
_MANY: Final = 64
_FORMS: Final = 4


def read(values: pa.BinaryArray) -> Events:
    """What each of `values` is, or the error that says what is wrong with it."""
    parts: list[tuple[Places, Events]] = []
    others = np.ones(len(values), dtype=bool)
    left = np.arange(len(values))
    for _ in range(_FORMS):
        if len(left) < _MANY:
            break
        here = values if len(left) == len(values) else values.take(pa.array(left))
        form = _form_of(here[0].as_py())
        if form is None:
            left = left[1:]
            continue
        try:
            has, columns = same_layout.find(form, here)
        except pa.ArrowInvalid:  # a text that is no UTF-8, a day that no calendar has: whose, is asked below
            break
        parts.append((left[has], Events(columns)))
        others[left[has]] = False
        left = left[1:][~has[1:]]
    if others.any() or not parts:
        rest = np.flatnonzero(others)
        parts.append((rest, one_by_one.read(values.take(pa.array(rest)).to_pylist())))
    return together(parts)


def _form_of(value: bytes | None) -> same_layout.Form | None:
    """The form that `value` shows, if it is an event."""
    judged = one_by_one.read_one(value)
    return None if value is None or isinstance(judged, UserError) else same_layout.form_of(value)
