"""The tracers in lines for people: one line for each entrance and destination."""

from collections.abc import Iterator, Mapping
from typing import Any


def lines_of(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a tracer's status, the result of all first."""
    tracers = found["tracers"]
    landed = [each["seconds"] or 0.0 for each in tracers if each["result"] == "landed"]
    if tracers and len(landed) == len(tracers):
        yield f"All tracers landed, the slowest in {max(landed):.1f} s."
    else:
        yield f"{len(landed)} of {len(tracers)} tracers landed."
    for each in tracers:
        seconds = "" if each["seconds"] is None else f" in {each['seconds']:.1f} s"
        reason = f" ({each['refusal']})" if each["refusal"] else ""
        day = ", ".join(f"{n:,} {result}" for result, n in each["day"].items())
        yield f"{each['entrance']} -> {each['destination']}: {each['result']}{seconds}{reason}; today {day}"
