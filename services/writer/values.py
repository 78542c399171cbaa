"""READ's last step: a batch's values as events.  Those that are written alike go together."""

from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa

from services.writer import alike, envelopes
from services.writer.events import Events, Places, together
from shared.errors import UserError

#: From so many values on it pays to look for those that are written alike, in so many forms.
_MANY: Final = 64
_FORMS: Final = 4


def read(values: pa.BinaryArray) -> Events:
    """What each of `values` is, or the error that says what is wrong with it."""
    parts: list[tuple[Places, Events]] = []
    left = rest = np.arange(len(values))
    for _ in range(_FORMS):
        if len(left) < _MANY:
            break
        found = _like_the_first(values if len(left) == len(values) else values.take(pa.array(left)))
        if found is None:
            left = left[1:]
            continue
        parts.append((left[found.has], Events(found.columns)))
        rest = np.setdiff1d(rest, left[found.has], assume_unique=True)
        left = left[~found.has]
    if len(rest) or not parts:
        values = values if not parts else values.take(pa.array(rest))
        parts.append((rest, envelopes.read(values.to_pylist())))
    return together(parts)


def _like_the_first(values: pa.BinaryArray) -> alike.Found | None:
    """Those of `values` that are written like the first of them; None if that shows no form."""
    first = values[0].as_py()
    form = None if isinstance(envelopes.read_one(first), UserError) else alike.form_of(first)
    if form is not None:
        with suppress(pa.ArrowInvalid):  # a text that is no UTF-8, a day that no calendar has
            found = alike.find(form, values)
            return found if found.has[0] else None
    return None
