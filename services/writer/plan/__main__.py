"""Shows the effect of a registry change on events in Kafka: ``python -m services.writer.plan FILE``."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from services.writer.plan.plan import PlanRequest, WrongFileError, try_change
from services.writer.settings import WriterSettings
from shared import logs
from shared.errors import InfrastructureError
from shared.give_way import give_way
from shared.read_settings import WrongSettingsError, read_settings
from shared.settings import KafkaSettings, RegistrySettings
from shared.trial_program import Exit, add_options, complain, print_report, window_of

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the change, print its effect, and return the exit code."""
    given = _parser().parse_args(arguments)
    logs.set_up("plan", "ERROR")
    try:
        window = window_of(given)
        request = PlanRequest(file=given.file, window=window, events=tuple(given.event))
        settings = (
            read_settings(WriterSettings),
            read_settings(KafkaSettings),
            read_settings(RegistrySettings),
        )
    except (ValueError, WrongSettingsError) as e:
        return complain(str(e), Exit.USAGE)
    # Processes that land live events on this machine have priority.
    give_way()
    try:
        report = try_change(request, *settings)
    except WrongFileError as e:
        return complain(str(e), Exit.FAILED)
    except InfrastructureError as e:
        return complain(e.detail, Exit.UNAVAILABLE)
    except Exception:
        log.exception("the plan failed with an unexpected error, perhaps of Spark")
        return Exit.UNAVAILABLE
    print_report(report, as_json=given.json)
    return report.exit


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onramp plan", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--event", action="append", default=[])
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
