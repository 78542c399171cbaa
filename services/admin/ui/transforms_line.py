"""The transforms as the Overview shows them: a sentence, and those that need attention first."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from services.admin.figures.status_sentence import Clause
from services.admin.figures.transforms_watch import TransformsReading
from services.admin.ui.formats import quantity
from services.admin.ui.view import PageView
from shared.transform_state import RUNNING

_LIST: Final = "GET /v1/transforms"
_MAX_SHOWN: Final = 5


class TransformsLine(NamedTuple):
    """The transforms in a sentence, and the first of them."""

    sentence: str
    first: Sequence[dict[str, Any]]


def clauses(view: PageView) -> Iterator[Clause]:
    """Yield a sentence for paused transforms, whose events wait until an operator resumes them."""
    if view.may(_LIST) and (paused := _reading(view).paused):
        waiting = sum(each["lag"] or 0 for each in paused)
        one, many = "transform is paused.", "transforms are paused."
        names = ", ".join(f"`{each['name']}`" for each in paused[:_MAX_SHOWN])
        rest = f"{quantity(waiting, 'event waits', 'events wait')} for {names}."
        yield Clause("wait", quantity(len(paused), one, many), rest, "/transforms")


def of(view: PageView) -> TransformsLine | None:
    """Return the line, or None without a transform or for a caller who may not see them."""
    reading = _reading(view)
    if not view.may(_LIST) or not reading.transforms:
        return None
    running = sum(each["state"] == RUNNING for each in reading.transforms)
    sentence = (
        f"{running:,} of {quantity(len(reading.transforms), 'transform runs', 'transforms run')}, "
        f"{quantity(reading.lag, 'event waits', 'events wait')}"
    )
    if down := reading.down():
        sentence += f", as of {down[0].since:%H:%M:%S} UTC: Kafka does not answer since"
    first = sorted(reading.transforms, key=lambda each: (each["state"] == RUNNING, -(each["lag"] or 0)))
    return TransformsLine(f"{sentence}.", first[:_MAX_SHOWN])


def _reading(view: PageView) -> TransformsReading:
    reading: TransformsReading = view.state.transforms.reading
    return reading
