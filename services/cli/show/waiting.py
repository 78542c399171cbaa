"""Output of `onramp errors waiting`: holds, databases, and unsettled offsets."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from services.cli.exits import complain

if TYPE_CHECKING:
    from services.ops.waiting_report import WaitingReport

Entry = Mapping[str, Any]


def print_waiting(report: "WaitingReport", *, as_json: bool) -> None:
    """Print a line for each hold, each database that is not landing, and each topic with a backlog."""
    for problem in report.problems:
        complain(problem)
    document = report.as_dict()
    if as_json:
        print(json.dumps(document))
        return
    lines = [_hold_line(each) for each in document["holds"]]
    lines += [_database_line(each) for each in document["databases"]]
    lines += [_topic_line(each) for each in document["unsettled"]]
    print("\n".join(lines) or "Nothing waits.")


def _hold_line(hold: Entry) -> str:
    head = (
        f"{hold['database']}: {hold['kind']} {hold['name']} is {hold['state']} since {_time(hold['since'])}"
    )
    return f"{head}, {_waiting(hold)}; {hold['why']} Next: {hold['next']}"


def _database_line(database: Entry) -> str:
    since = f" since {_time(database['since'])}" if database["since"] else ""
    head = f"{database['database']} is {database['state']}{since}, {_waiting(database)} on Kafka"
    why = f"; {database['why']}" if database["why"] else ""
    return f"{head}{why}. Next: {database['next']}"


def _topic_line(topic: Entry) -> str:
    oldest = f", the oldest since {_time(topic['oldest'])}" if topic["oldest"] else ""
    return f"{topic['topic']}: {topic['offsets']:,} offsets are not settled{oldest}; {_deleted(topic)}"


def _deleted(topic: Entry) -> str:
    hours = topic["deleted_in_hours"]
    size = "by size, at an unknown time" if topic["deleted_by_size"] else ""
    if hours is None:
        return f"Kafka deletes them {size}" if size else "Kafka deletes none of them for now"
    return f"Kafka deletes the oldest in {hours:,} hours" + (f", or {size}" if size else "")


def _waiting(entry: Entry) -> str:
    oldest = f", the oldest since {_time(entry['oldest'])}" if entry["oldest"] else ""
    return f"{entry['waiting']:,} waiting{oldest}"


def _time(text: str) -> str:
    return text.partition(".")[0].partition("+")[0]
