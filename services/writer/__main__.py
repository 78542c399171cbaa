"""Runs the writer with settings from the environment: ``python -m services.writer``."""

import asyncio
import logging
import os
import sys
from typing import Final

from services.writer.driver.app import WriterProcess
from services.writer.settings import WriterSettings
from shared import logs
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.settings import KafkaSettings, RegistrySettings

log = logging.getLogger(__name__)

EXIT_USAGE: Final = 2


def main() -> int:
    """Run until a stop signal; return the exit code, 2 for wrong settings."""
    logs.set_up("writer")
    try:
        settings, kafka = read_settings(WriterSettings), read_settings(KafkaSettings)
        registry = read_settings(RegistrySettings)
    except WrongSettingsError as e:
        log.error("a setting is wrong: the writer does not start", extra={"reason": str(e)})  # noqa: TRY400
        return EXIT_USAGE
    logs.set_up("writer", settings.log_level)
    warn_of_unknown(WriterSettings, KafkaSettings, RegistrySettings)
    # A failpoint in a Spark worker means this process, not the worker (tests only).
    os.environ.setdefault("ONRAMP_FAILPOINT_PID", str(os.getpid()))
    try:
        return asyncio.run(WriterProcess(settings, kafka, registry).run())
    except WrongSettingsError as e:
        log.error("a setting is wrong: the writer does not start", extra={"reason": str(e)})  # noqa: TRY400
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
