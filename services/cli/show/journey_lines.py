"""Output of `onramp journey`: one sentence, then a line for each step."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from services.ops.journey.timeline import Journey, Step

_NO_TIME: Final = " " * 19


def lines_of(journey: "Journey") -> Iterator[str]:
    """Yield the lines."""
    yield journey.sentence
    receipt = None
    for step in journey.steps:
        if step.receipt != receipt:
            receipt = step.receipt
            yield f"\n{receipt}"
        yield from _step_lines(step)
    if journey.is_known:
        yield from _list("Unknown", journey.doubts)
        yield from _list("Searched", journey.searched)


def _step_lines(step: "Step") -> Iterator[str]:
    time = f"{step.at:%Y-%m-%d %H:%M:%S}" if step.at else _NO_TIME
    yield f"  {time}  {step.text}"
    if step.ends:
        yield f"  {_NO_TIME}    next: {step.ends}"
    if step.sql:
        yield f"  {_NO_TIME}    {step.sql}"


def _list(title: str, sentences: tuple[str, ...]) -> Iterator[str]:
    if sentences:
        yield f"\n{title}:"
        yield from (f"  {sentence}" for sentence in sentences)
