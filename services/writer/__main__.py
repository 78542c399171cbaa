"""``python -m services.writer``: runs the writer with settings from the environment."""

import asyncio
import logging
import os
import sys
from typing import Final

from services.writer.driver.app import WriterProcess
from services.writer.settings import WriterSettings
from shared import logs
from shared.registry.file import RegistryFileError
from shared.settings import KafkaSettings, RegistrySettings

log = logging.getLogger(__name__)

EXIT_USAGE: Final = 2


def main() -> int:
    """Run until told to stop; return the exit code, 2 for a wrong registry."""
    settings = WriterSettings()
    logs.set_up("writer", settings.log_level)
    # A failpoint in a Spark worker means this process, not the worker (tests only).
    os.environ.setdefault("ONRAMP_FAILPOINT_PID", str(os.getpid()))
    try:
        return asyncio.run(_run(settings))
    except RegistryFileError as e:
        log.error("the registry is wrong: the writer does not start", extra={"reason": str(e)})  # noqa: TRY400
        return EXIT_USAGE


async def _run(settings: WriterSettings) -> int:
    return await WriterProcess(settings, KafkaSettings(), RegistrySettings()).run()


if __name__ == "__main__":
    sys.exit(main())
