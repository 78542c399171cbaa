"""The statement in lines for people: the result first, then topics, parked events and missing parts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_OUTCOMES: Final = ("landed", "duplicate", "parked", "waiting")
_OUTCOMES_OF_TRANSFORMS: Final = ("emitted", "dropped", "filtered", "parked")


def lines_of(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a statement."""
    yield _result(found)
    for name, times in found["databases"].items():
        yield f"{name}: from {times['since'] or 'the first event'} to {times['until']}"
    for topic in found["topics"]:
        for each in topic["destinations"]:
            outcomes = " + ".join(f"{each[outcome]:,} {outcome}" for outcome in _OUTCOMES if each[outcome])
            sign = "=" if each["adds_up"] else "DIFFERS FROM"
            yield (
                f"{topic['topic']} -> {each['destination']}: {each['records']:,} records {sign} "
                f"{outcomes or '0 landed'}"
            )
        yield from _further(topic)
    for topic_name, behind in found["in_flight"].items():
        if behind:
            yield f"{topic_name}: {behind:,} in flight"
    yield from _parked(found["parked_now"])
    for table in found["sources"]:
        counts = ", ".join(f"{table[name]:,} {name}" for name in ("read", "landed", "merged", "repeated"))
        suspended = f", suspended: {table['suspended']}" if table["suspended"] else ""
        where = f"{table['source']} {table['table']} -> {table['database']}"
        yield f"source {where}: changes {counts}{suspended}"
    yield from map(_transform, found.get("transforms", ()))
    yield from map(_lake_table, found.get("lake", ()))
    for difference in found["differences"]:
        yield f"DIFFERENCE  {difference}"
    for each in found["unevaluated"]:
        yield f"not evaluated: {each['part']}: {each['reason']}"


def _transform(line: Mapping[str, Any]) -> str:
    outcomes = " + ".join(f"{line[name]:,} {name}" for name in _OUTCOMES_OF_TRANSFORMS if line[name])
    sign = "=" if line["adds_up"] else "DIFFERS FROM"
    lag = "" if line["lag"] is None else f", lag {line['lag']:,}"
    read = f"transform {line['transform']}: {line['read']:,} records {sign} {outcomes or '0 emitted'}"
    return f"{read}; {line['outputs']:,} outputs{lag}"


def _lake_table(line: Mapping[str, Any]) -> str:
    lag = "" if line["lag"] is None else f", lag {line['lag']:,}"
    compared = ", ".join(line["compared_with"])
    if compared:
        compared = f"; {'as in' if line['adds_up'] else 'DIFFERS FROM'} {compared}"
    return f"{line['topic']} -> lake.{line['table']}: {line['landed']:,} rows{lag}{compared}"


def _further(topic: Mapping[str, Any]) -> Iterator[str]:
    """Yield the counts of a topic's records that have no destination, or whose database waits."""
    names = {
        "filtered": topic["filtered"],
        "unroutable": topic["unroutable"],
        "waiting on Kafka": topic["diverted"],
        "skipped by an operator": topic["skipped"],
    }
    counts = ", ".join(f"{n:,} {name}" for name, n in names.items() if n)
    if counts:
        yield f"{topic['topic']} in {topic['database']}: {counts}"


def _parked(states: list[dict[str, Any]] | None) -> Iterator[str]:
    """Yield the parked events of the period by their present state."""
    for each in states or ():
        counts = {k: n for k, n in each.items() if k not in {"topic", "destination"}}
        listed = ", ".join(f"{n:,} {state}" for state, n in counts.items())
        yield f"parked, as of now: {each['topic']} -> {each['destination'] or 'no destination'}: {listed}"


def _result(found: Mapping[str, Any]) -> str:
    records = sum(each["records"] for topic in found["topics"] for each in topic["destinations"])
    if not found["adds_up"]:
        return f"DOES NOT ADD UP: {len(found['differences']):,} differences"
    if not found["complete"]:
        parts = ", ".join(each["part"] for each in found["unevaluated"])
        return f"NOT ALL EVALUATED: no difference, but {parts}"
    return f"All accounted for: {records:,} records, final up to {found['final_until']}"
