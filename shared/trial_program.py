"""The command line of a program that tries a change on past events: `plan`, and `rehearse` of transforms."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final, Protocol

from shared.kafka_read.history import Window, WindowRanges
from shared.kafka_read.offsets import total
from shared.time_window import moment

_SINCE: Final = "24h"


class Exit(IntEnum):
    """The exit codes: `FAILED` if an event newly fails, `UNCHECKED` if the trial is incomplete."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    UNCHECKED = 4


class TrialReport(Protocol):
    """The report of a trial."""

    def as_dict(self) -> dict[str, Any]:
        """Return the report for programs."""

    def lines(self) -> Iterator[str]:
        """Yield the report's lines for people."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the window and of the output."""
    window = parser.add_mutually_exclusive_group()
    window.add_argument("--since")
    window.add_argument("--last", type=int)
    parser.add_argument("--json", action="store_true")


def window_of(given: argparse.Namespace) -> Window:
    """Return the window that the options name.  Raise `ValueError`."""
    if given.last is None:
        return Window(since=moment(given.since or _SINCE, time.time()))
    if given.last < 1:
        raise ValueError(f"--last {given.last}: the window needs at least one event")
    return Window(last=given.last)


def print_report(report: TrialReport, *, as_json: bool) -> None:
    """Print a report on standard output."""
    text = json.dumps(report.as_dict()) if as_json else "\n".join(report.lines())
    sys.stdout.write(f"{text}\n")


def complain(problem: str, code: Exit) -> Exit:
    """Print a problem on standard error, and return `code`."""
    sys.stderr.write(f"onramp: {problem}\n")
    return code


def window_as_dict(window: Window, ranges: WindowRanges) -> dict[str, Any]:
    """Return a report's window for programs."""
    return {
        "since": None if window.since is None else datetime.fromtimestamp(window.since, UTC).isoformat(),
        "last": window.last,
        "partitions": len(ranges.ranges),
        "offsets": total(ranges.ranges),
    }


def notes_on(ranges: WindowRanges) -> list[str]:
    """Return the note on a window whose beginning Kafka's retention has deleted, if it has."""
    if not (cut := ranges.cut):
        return []
    lost = f"retention has deleted the beginning of {len(cut)} partitions, for example {cut[0]}"
    return [f"Kafka may hold less than the window: {lost}"]
