"""The tracers in lines for people: one line for each entrance and destination."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any


def lines_of(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a tracer's status, the overall result first."""
    tracers = found["tracers"]
    landed = [each["seconds"] or 0.0 for each in tracers if each["result"] == "landed"]
    if tracers and len(landed) == len(tracers):
        yield f"All tracers landed, the slowest in {max(landed):.1f} s."
    else:
        yield f"{len(landed)} of {len(tracers)} tracers landed."
    day = Counter[str]()
    for each in tracers:
        day.update({name: each["day"].get(name, 0) for name in ("lost", "duplicate", "not_in_lake")})
    if +day:
        yield f"NOT LANDED EXACTLY ONCE in the last day: {_listed(+day)}."
    for each in tracers:
        seconds = "" if each["seconds"] is None else f" in {each['seconds']:.1f} s"
        reason = f" ({each['refusal']})" if each["refusal"] else ""
        where = f"{each['entrance']} -> {each['destination']}"
        yield f"{where}: {each['result'].replace('_', ' ')}{seconds}{reason}; last day {_listed(each['day'])}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {result.replace('_', ' ')}" for result, n in counts.items())
