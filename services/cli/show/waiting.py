"""Output of `onramp errors waiting`: holds, databases, and unsettled offsets."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from services.cli.exits import complain
from services.cli.show.tables import print_table
from shared.printable_text import printable

if TYPE_CHECKING:
    from services.ops.waiting_report import WaitingReport

Entry = Mapping[str, Any]

_WAITING: Final = ("DATABASE", "WAITS FOR", "STATE", "SINCE", "WAITING", "OLDEST")
_UNSETTLED: Final = ("TOPIC", "UNSETTLED", "OLDEST", "DELETED BY KAFKA")


def print_waiting(report: "WaitingReport", *, as_json: bool) -> None:
    """Print a table of holds and databases, with reason and next step of each, and one of topics."""
    for problem in report.problems:
        complain(problem)
    document = report.as_dict()
    if as_json:
        print(json.dumps(document))
        return
    if report.is_empty:
        print("Nothing waits.")
        return
    rows = [_waiting_row(hold, f"{hold['kind']} {hold['name']}") for hold in document["holds"]]
    rows += [_waiting_row(each, "the database") for each in document["databases"]]
    print_table(_WAITING, rows, {"WAITING"})
    for hold in document["holds"]:
        print(printable(f"{hold['kind']} {hold['name']}: {hold['why']} Next: {hold['next']}"))
    for each in document["databases"]:
        print(printable(f"{each['database']}: {each['why'] or each['state']}. Next: {each['next']}"))
    print_table(_UNSETTLED, map(_topic_row, document["unsettled"]), {"UNSETTLED"})


def _waiting_row(entry: Entry, obstacle: str) -> tuple[str, ...]:
    since, oldest = _time(entry["since"]), _time(entry["oldest"])
    return entry["database"], obstacle, entry["state"], since, f"{entry['waiting']:,}", oldest


def _topic_row(topic: Entry) -> tuple[str, ...]:
    return topic["topic"], f"{topic['offsets']:,}", _time(topic["oldest"]), _deleted(topic)


def _deleted(topic: Entry) -> str:
    hours = topic["deleted_in_hours"]
    size = "by size, at an unknown time" if topic["deleted_by_size"] else ""
    if hours is None:
        return size or "not for now"
    return f"in {hours:,} hours" + (f", or {size}" if size else "")


def _time(text: str | None) -> str:
    return (text or "").partition(".")[0].partition("+")[0]
