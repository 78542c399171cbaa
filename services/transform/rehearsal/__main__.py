"""Runs a function on events in Kafka: ``python -m services.transform.rehearsal NAME``."""

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from services.transform.rehearsal.rehearse import RehearsalRequest, WrongTransformError, rehearse
from services.transform.rehearsal.report import Exit, Report
from services.transform.settings import TransformSettings
from shared import logs
from shared.errors import InfrastructureError
from shared.give_way import give_way
from shared.kafka_read.history import Window
from shared.read_settings import WrongSettingsError, read_settings
from shared.settings import KafkaSettings, RegistrySettings
from shared.time_window import moment
from shared.writer_databases import WriterDatabases

log = logging.getLogger(__name__)

_SINCE: Final = "24h"


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse the transform, print the report, and return the exit code."""
    given = _parser().parse_args(arguments)
    logs.set_up("rehearse", "ERROR")
    try:
        window = _window(given.since, given.last)
        request = RehearsalRequest(
            name=given.name,
            folder=given.folder,
            window=window,
            is_against_live=given.against == "live",
            environments=read_settings(TransformSettings).environments,
            databases=read_settings(WriterDatabases).by_name(),
        )
        settings = read_settings(KafkaSettings), read_settings(RegistrySettings)
    except (ValueError, WrongSettingsError) as e:
        return _complain(str(e), Exit.USAGE)
    # Processes that land live events on this machine have priority.
    give_way()
    try:
        report = rehearse(request, *settings, lambda text: sys.stderr.write(f"rehearse: {text}\n"))
    except WrongTransformError as e:
        return _complain(str(e), Exit.FAILED)
    except InfrastructureError as e:
        return _complain(e.detail, Exit.UNAVAILABLE)
    except OSError as e:
        return _complain(f"the function's process cannot be started: {e}", Exit.UNAVAILABLE)
    except Exception:
        log.exception("the rehearsal failed with an unexpected error")
        return Exit.UNAVAILABLE
    _print(report, as_json=given.json)
    return report.exit


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onramp transforms rehearse", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--folder", type=Path, default=Path("transforms"))
    window = parser.add_mutually_exclusive_group()
    window.add_argument("--since")
    window.add_argument("--last", type=int)
    parser.add_argument("--against", choices=["live"])
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
