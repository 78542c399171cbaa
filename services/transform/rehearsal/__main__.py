"""Runs a function on events in Kafka: ``python -m services.transform.rehearsal NAME``."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from services.transform.rehearsal.rehearse import RehearsalRequest, WrongTransformError, rehearse
from services.transform.settings import TransformSettings
from shared import logs
from shared.errors import InfrastructureError
from shared.give_way import give_way
from shared.read_settings import WrongSettingsError, read_settings
from shared.settings import KafkaSettings, RegistrySettings
from shared.trial_program import Exit, add_options, complain, print_report, window_of
from shared.writer_databases import WriterDatabases

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse the transform, print the report, and return the exit code."""
    given = _parser().parse_args(arguments)
    logs.set_up("rehearse", "ERROR")
    try:
        window = window_of(given)
        transforms = read_settings(TransformSettings)
        request = RehearsalRequest(
            name=given.name,
            folder=given.folder,
            window=window,
            is_against_live=given.against == "live",
            environments=transforms.environments,
            max_event_bytes=transforms.max_event_bytes,
            databases=read_settings(WriterDatabases).by_name(),
        )
        settings = read_settings(KafkaSettings), read_settings(RegistrySettings)
    except (ValueError, WrongSettingsError) as e:
        return complain(str(e), Exit.USAGE)
    # Processes that land live events on this machine have priority.
    give_way()
    try:
        report = rehearse(request, *settings, lambda text: sys.stderr.write(f"rehearse: {text}\n"))
    except WrongTransformError as e:
        return complain(str(e), Exit.FAILED)
    except InfrastructureError as e:
        return complain(e.detail, Exit.UNAVAILABLE)
    except OSError as e:
        return complain(f"the function's process cannot be started: {e}", Exit.UNAVAILABLE)
    except Exception:
        log.exception("the rehearsal failed with an unexpected error")
        return Exit.UNAVAILABLE
    print_report(report, as_json=given.json)
    return report.exit


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onramp transforms rehearse", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--folder", type=Path, default=Path("transforms"))
    parser.add_argument("--against", choices=["live"])
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
