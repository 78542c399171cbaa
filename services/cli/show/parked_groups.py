"""Prints stored events and their groups for `onramp errors`; values only on request."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from services.cli.show.tables import print_table
from shared.printable_text import printable

Entry = Mapping[str, Any]
_GROUPS: Final = ("GROUP", "EVENTS", "STATE", "LAST SEEN", "LANDS", "CAUSE")
_JOBS: Final = ("JOB", "KIND", "STATE", "EVENTS", "FAILED", "STARTED", "BY", "REASON")
_EVENTS: Final = ("NUMBER", "PARKED", "STATE", "CODE", "KEY", "DETAIL")
_LOST: Final = ("NUMBER", "KEY", "BYTES")
_COUNTS: Final = ("EVENTS", "STATE", "CODE", "EVENT NAME", "DESTINATION")
_ACTS: Final = ("TIME", "ACTOR", "ACTION", "SUBJECT", "REASON")
_OUTCOMES: Final = ("EVENTS", "OUTCOME", "REASON")
_SAMPLES: Final = ("NUMBER", "OUTCOME", "ROW")
_NUMBERS: Final = frozenset({"GROUP", "EVENTS", "JOB", "NUMBER", "FAILED"})
#: Members of a group that are not printed as one line.
_OWN_LINES = frozenset({"cause", "facets", "samples", "would_land_now"})


def print_groups(groups: Iterable[Entry], *, as_json: bool) -> None:
    """Print a table of groups."""
    _print_each(_GROUPS, groups, _group_row, as_json=as_json)


def print_group(group: Entry, *, as_json: bool) -> None:
    """Print one group with all fields, and shapes of its events."""
    if as_json:
        print(json.dumps(group))
        return
    print_fields({name: value for name, value in group.items() if name not in _OWN_LINES})
    print_fields({name: value for name, value in group["cause"].items() if value is not None})
    _print_rehearsal(group["would_land_now"])
    print_fields({name: _facet(facet) for name, facet in group["facets"].items()})
    for sample in group["samples"]:
        print(printable(f"  {json.dumps(sample, ensure_ascii=False)}"))


def print_events(events: Iterable[Entry], *, as_json: bool) -> None:
    """Print a table of events."""
    _print_each(_EVENTS, events, _event_row, as_json=as_json)


def print_counts(counts: Sequence[Entry], *, as_json: bool) -> None:
    """Print the counts of events by state, code, event and destination."""
    if as_json:
        print(json.dumps(counts))
        return
    print_table(_COUNTS, map(_count_row, counts), _NUMBERS)
    if not counts:
        print("No event is parked.")


def print_jobs(jobs: Iterable[Entry], *, as_json: bool) -> None:
    """Print a table of jobs."""
    _print_each(_JOBS, jobs, _job_row, as_json=as_json)


def print_job(job: Entry, *, as_json: bool) -> None:
    """Print one job with all fields, and the outcomes of its events by cause."""
    if as_json:
        print(json.dumps(job))
        return
    print_fields({name: value for name, value in job.items() if name not in {"results", "samples"}})
    _print_results(job)


def print_rehearsal(job: Entry, *, as_json: bool) -> None:
    """Print the outcomes of a rehearsal's events."""
    if as_json:
        print(json.dumps(job))
        return
    print(f"rehearsal {job['id']}: {job['state']}, {job['changed']:,} of {job['counted']:,}")
    _print_results(job)


def print_acts(acts: Iterable[Entry], *, as_json: bool) -> None:
    """Print a table of the audit log's entries."""
    _print_each(_ACTS, acts, _act_row, as_json=as_json)


def print_counted(counted: Entry, *, as_json: bool) -> None:
    """Print how many events a job would change."""
    print(json.dumps(counted) if as_json else f"{counted['events']:,} events")


def print_rechecked(pages: Iterable[Entry], *, dry_run: bool, as_json: bool) -> dict[str, str]:
    """Print lost replayed events page by page; return the errors of databases that were not queried."""
    sums = {"checked": 0, "lost": 0, "staged": 0, "gone": 0}
    unreached: dict[str, str] = {}
    for page in pages:
        _print_each(_LOST, page["lost"], _lost_row, as_json=as_json)
        gone = sum(event["gone"] for event in page["lost"])
        found = {"checked": page["checked"], "lost": len(page["lost"]), "staged": page["staged"]}
        sums = {name: n + (found | {"gone": gone})[name] for name, n in sums.items()}
        unreached |= page["unreached"]
    if as_json:
        print(json.dumps(sums | {"dry_run": dry_run, "unreached": unreached}))
        return unreached
    done = "would be open again" if dry_run else "are open again: replay them"
    print(f"{sums['checked']:,} replayed events, {sums['lost']:,} of them lost: they {done}")
    if sums["staged"]:
        print(f"{sums['staged']:,} are staged where they are not known: run it again in 15 minutes")
    if sums["gone"]:
        print(
            f"{sums['gone']:,} have no bytes here any more; onramp.user_errors on Kafka has them "
            "(docs/parked-events.md, Sending a parked event again)"
        )
    return unreached


def print_fields(fields: Entry) -> None:
    """Print a line for each field."""
    for name, value in fields.items():
        print(
            printable(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
        )


def print_event(event: Entry, value: bytes | None, *, as_json: bool) -> None:
    """Print one event with all fields, the fields of its reason, and its value if given."""
    if as_json:
        print(json.dumps({**event, **({} if value is None else {"value": _escaped(value)})}))
        return
    reason = event["reason"]
    print_fields({name: field for name, field in event.items() if name != "reason"})
    print_fields({name: field for name, field in reason.items() if name not in event})
    if value is not None:
        print(f"value: {_escaped(value)}")


def write_bytes(value: bytes) -> None:
    """Write bytes to standard output, and nothing else."""
    sys.stdout.buffer.write(value)
    sys.stdout.buffer.flush()


def _print_results(job: Entry) -> None:
    """Print outcomes with counts and reasons, and shapes of some events."""
    print_table(_OUTCOMES, map(_outcome_row, job["results"]), _NUMBERS)
    print_table(_SAMPLES, map(_sample_row, job["samples"]), _NUMBERS)


def _print_each(
    columns: Sequence[str],
    entries: Iterable[Entry],
    row_of: Callable[[Entry], Sequence[str]],
    *,
    as_json: bool,
) -> None:
    if not as_json:
        print_table(columns, map(row_of, entries), _NUMBERS)
        return
    for entry in entries:
        print(json.dumps(entry))


def _group_row(group: Entry) -> tuple[str, ...]:
    shown = (
        f"{group['events']:,}",
        group["state"],
        _time(group["last_seen"]),
        _would_land(group["would_land_now"]),
    )
    return (str(group["id"]), *shown, group["title"])


def _would_land(rehearsal: Entry | None) -> str:
    """Return the share of rehearsed events that would land; empty if unknown."""
    return f"{rehearsal['would_land']}/{rehearsal['of']}" if rehearsal and rehearsal["at"] else ""


def _print_rehearsal(rehearsal: Entry | None) -> None:
    """Print how many events would land, the time of that rehearsal, and the outcomes of the others."""
    if rehearsal and rehearsal["at"]:
        print(
            f"would land now: {rehearsal['would_land']} of {rehearsal['of']}, as of {_time(rehearsal['at'])}"
        )
        print_table(_OUTCOMES, map(_outcome_row, rehearsal["why"]), _NUMBERS)
    else:
        print("would land now: not known")
    if rehearsal and rehearsal["waits"]:
        print(printable(f"no later answer: {rehearsal['waits']}"))


def _facet(facet: Entry) -> str:
    """Return the values of a facet with their counts."""
    said = [f"{value['value'] or '-'} ({value['events']:,})" for value in facet["values"]]
    return ", ".join([*said, *([f"others ({facet['others']:,})"] if facet["others"] else [])])


def _act_row(act: Entry) -> tuple[str, ...]:
    more = f"and {act['events'] - 1:,} more" if act["events"] > 1 else ""
    return _time(act["at"]), act["actor"], act["act"], act["subject"], act["reason"] or more


def _event_row(event: Entry) -> tuple[str, ...]:
    shown = _time(event["parked_at"]), event["state"], event["code"], _key(event)
    return (str(event["id"]), *shown, event["detail"] or "")


def _lost_row(event: Entry) -> tuple[str, ...]:
    return str(event["id"]), _key(event), "deleted" if event["gone"] else "stored"


def _key(event: Entry) -> str:
    return f"{event['topic']}/{event['partition']}/{event['offset']}/{event['destination']}"


def _count_row(entry: Entry) -> tuple[str, ...]:
    counted = f"{entry['events']:,}", entry["state"], entry["code"]
    return (*counted, entry["event_name"] or "", entry["destination"] or "")


def _outcome_row(result: Entry) -> tuple[str, ...]:
    return f"{result['events']:,}", result["outcome"], result["reason"]


def _sample_row(sample: Entry) -> tuple[str, ...]:
    shown = sample["row"] or sample.get("edited")
    return str(sample["event"]), sample["outcome"], json.dumps(shown, ensure_ascii=False)


def _done(job: Entry) -> str:
    """Return a job's changed and counted events, and why a finished job did not change all."""
    missing = job["counted"] - job["changed"] - job["failed"]
    others = f" ({missing:,} were changed by other jobs)" if job["state"] == "done" and missing > 0 else ""
    return f"{job['changed']:,} of {job['counted']:,}{others}"


def _job_row(job: Entry) -> tuple[str, ...]:
    word = "would fail" if job["kind"] == "rehearse" else "failed again"
    failed = f"{job['failed']:,} {word}" if job["failed"] else ""
    shown = str(job["id"]), job["kind"], job["state"], _done(job), failed
    return (*shown, _time(job["created_at"]), job["actor"], job["reason"])


def _time(text: str) -> str:
    return text.partition(".")[0].partition("+")[0]


def _escaped(value: bytes) -> str:
    from services.ops.parked.records import escaped

    return escaped(value) or ""
