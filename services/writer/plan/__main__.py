"""Shows the effect of a registry change on events in Kafka: ``python -m services.writer.plan FILE``."""

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from services.writer.plan.plan import PlanRequest, WrongFileError, try_change
from services.writer.plan.report import Exit, Report
from services.writer.settings import WriterSettings
from shared import logs
from shared.errors import InfrastructureError
from shared.give_way import give_way
from shared.kafka_read.history import Window
from shared.read_settings import WrongSettingsError, read_settings
from shared.settings import KafkaSettings, RegistrySettings
from shared.time_window import moment

log = logging.getLogger(__name__)

_SINCE: Final = "24h"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the change, print its effect, and return the exit code."""
    given = _parser().parse_args(arguments)
    logs.set_up("plan", "ERROR")
    try:
        window = _window(given.since, given.last)
        request = PlanRequest(file=given.file, window=window, events=tuple(given.event))
        settings = (
            read_settings(WriterSettings),
            read_settings(KafkaSettings),
            read_settings(RegistrySettings),
        )
    except (ValueError, WrongSettingsError) as e:
        return _complain(str(e), Exit.USAGE)
    # Processes that land live events on this machine have priority.
    give_way()
    try:
        report = try_change(request, *settings)
    except WrongFileError as e:
        return _complain(str(e), Exit.FAILED)
    except InfrastructureError as e:
        return _complain(e.detail, Exit.UNAVAILABLE)
    except Exception:
        log.exception("the plan failed with an unexpected error, perhaps of Spark")
        return Exit.UNAVAILABLE
    _print(report, as_json=given.json)
    return report.exit


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onramp plan", description=__doc__)
    parser.add_argument("file", type=Path)
    window = parser.add_mutually_exclusive_group()
    window.add_argument("--since")
    window.add_argument("--last", type=int)
    parser.add_argument("--event", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    return parser


def _window(since: str | None, last: int | None) -> Window:
    """Return the window.  Raise `ValueError`."""
    if last is None:
        return Window(since=moment(since or _SINCE, time.time()))
    if last < 1:
        raise ValueError(f"--last {last}: the window needs at least one event")
    return Window(last=last)


def _print(report: Report, *, as_json: bool) -> None:
    text = json.dumps(report.as_dict()) if as_json else "\n".join(report.lines())
    sys.stdout.write(f"{text}\n")


def _complain(problem: str, code: Exit) -> Exit:
    sys.stderr.write(f"onramp: {problem}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
