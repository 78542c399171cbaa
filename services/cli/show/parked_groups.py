"""Prints stored events and their groups for `onramp errors`; values only on request."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Entry = Mapping[str, Any]
_GROUP_COLUMNS = f"{'GROUP':>6}  {'EVENTS':>9}  {'STATE':<12}  {'LAST SEEN':<19}  {'LANDS':<5}  CAUSE"
_JOB_COLUMNS = f"{'JOB':>6}  {'KIND':<8}  {'STATE':<9}  {'EVENTS':>24}  {'STARTED':<19}  BY: REASON"
#: Members of a group that are not printed as one line.
_OWN_LINES = frozenset({"cause", "facets", "samples", "would_land_now"})


def print_groups(groups: Iterable[Entry], *, as_json: bool) -> None:
    """Print a line for each group, below the columns' names."""
    _print_table(_GROUP_COLUMNS, groups, _group_line, as_json=as_json)


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
        print(_safe(f"  {json.dumps(sample, ensure_ascii=False)}"))


def print_events(events: Iterable[Entry], *, as_json: bool) -> None:
    """Print a line for each event."""
    _print_each(events, _event_line, as_json=as_json)


def print_counts(counts: Sequence[Entry], *, as_json: bool) -> None:
    """Print the counts of events by state, code, event and destination."""
    if as_json:
        print(json.dumps(counts))
        return
    for entry in counts:
        print(_safe(_count_line(entry)))
    if not counts:
        print("No event is parked.")


def print_jobs(jobs: Iterable[Entry], *, as_json: bool) -> None:
    """Print a line for each job, below the columns' names."""
    _print_table(_JOB_COLUMNS, jobs, _job_line, as_json=as_json)


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
    """Print a line for each entry of the audit log."""
    _print_each(acts, _act_line, as_json=as_json)


def print_counted(counted: Entry, *, as_json: bool) -> None:
    """Print how many events a job would change."""
    print(json.dumps(counted) if as_json else f"{counted['events']:,} events")


def print_rechecked(pages: Iterable[Entry], *, dry_run: bool, as_json: bool) -> dict[str, str]:
    """Print lost replayed events page by page; return the errors of databases that were not queried."""
    sums = {"checked": 0, "lost": 0, "staged": 0, "gone": 0}
    unreached: dict[str, str] = {}
    for page in pages:
        for event in page["lost"]:
            print(json.dumps(event) if as_json else _safe(_lost_line(event)))
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
        print(_safe(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"))


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
    for result in job["results"]:
        print(_safe(f"  {result['events']:>9,}  {result['outcome']:<9}  {result['reason']}"))
    for sample in job["samples"]:
        row = json.dumps(sample["row"], ensure_ascii=False)
        print(_safe(f"  {sample['event']:>9}  {sample['outcome']:<9}  {row}"))


def _print_each(entries: Iterable[Entry], line_of: Callable[[Entry], str], *, as_json: bool) -> None:
    for entry in entries:
        print(json.dumps(entry) if as_json else _safe(line_of(entry)))


def _print_table(
    columns: str, entries: Iterable[Entry], line_of: Callable[[Entry], str], *, as_json: bool
) -> None:
    """Print the columns' names and the entries; nothing without entries."""
    for number, entry in enumerate(entries):
        if number == 0 and not as_json:
            print(columns)
        print(json.dumps(entry) if as_json else _safe(line_of(entry)))


def _group_line(group: Entry) -> str:
    head = f"{group['id']:>6}  {group['events']:>9,}  {group['state']:<12}  {_time(group['last_seen'])}"
    return f"{head}  {_would_land(group['would_land_now'])}  {group['sentence']}"


def _would_land(rehearsal: Entry | None) -> str:
    """Return the share of rehearsed events that would land."""
    return f"{rehearsal['would_land']:>2}/{rehearsal['of']:<2}" if rehearsal and rehearsal["at"] else "  -  "


def _print_rehearsal(rehearsal: Entry | None) -> None:
    """Print how many events would land, the time of that rehearsal, and the outcomes of the others."""
    if rehearsal and rehearsal["at"]:
        print(
            f"would land now: {rehearsal['would_land']} of {rehearsal['of']}, as of {_time(rehearsal['at'])}"
        )
        for result in rehearsal["why"]:
            print(_safe(f"  {result['events']:>9,}  {result['outcome']:<9}  {result['reason']}"))
    else:
        print("would land now: not known")
    if rehearsal and rehearsal["waits"]:
        print(_safe(f"no later answer: {rehearsal['waits']}"))


def _facet(facet: Entry) -> str:
    """Return the values of a facet with their counts."""
    said = [f"{value['value'] or '-'} ({value['events']:,})" for value in facet["values"]]
    return ", ".join([*said, *([f"others ({facet['others']:,})"] if facet["others"] else [])])


def _act_line(act: Entry) -> str:
    head = f"{_time(act['at'])}  {act['actor']}  {act['act']}  {act['subject']}"
    more = f"and {act['events'] - 1:,} more" if act["events"] > 1 else ""
    return f"{head}  {act['reason'] or more}".rstrip()


def _event_line(event: Entry) -> str:
    key = f"{event['topic']}/{event['partition']}/{event['offset']}/{event['destination']}"
    head = f"{event['id']:>8}  {_time(event['parked_at'])}  {event['state']}  {event['code']}  {key}"
    return f"{head}  {event['detail'] or ''}"


def _lost_line(event: Entry) -> str:
    key = f"{event['topic']}/{event['partition']}/{event['offset']}/{event['destination']}"
    return f"{event['id']:>8}  {key}{'  without bytes' if event['gone'] else ''}"


def _count_line(entry: Entry) -> str:
    of = f"{entry['state']}  {entry['code']}  {entry['event_name'] or '-'}  {entry['destination'] or '-'}"
    return f"{entry['events']:>9,}  {of}"


def _done(job: Entry) -> str:
    """Return a job's changed and counted events, and why a finished job did not change all."""
    missing = job["counted"] - job["changed"] - job["failed"]
    others = f" ({missing:,} were changed by other jobs)" if job["state"] == "done" and missing > 0 else ""
    return f"{job['changed']:,} of {job['counted']:,}{others}"


def _job_line(job: Entry) -> str:
    done = _done(job)
    word = "would fail" if job["kind"] == "rehearse" else "failed again"
    failed = f"  {job['failed']:,} {word}" if job["failed"] else ""
    head = f"{job['id']:>6}  {job['kind']:<8}  {job['state']:<9}  {done:>24}{failed}"
    return f"{head}  {_time(job['created_at'])}  {job['actor']}: {job['reason']}"


def _time(text: str) -> str:
    return text.partition(".")[0].partition("+")[0]


def _escaped(value: bytes) -> str:
    from services.ops.parked.records import escaped

    return escaped(value) or ""


def _safe(line: str) -> str:
    """Escape control characters: names and reasons come from topics that others may write to."""
    return _escaped(line.encode("utf-8", "backslashreplace"))
