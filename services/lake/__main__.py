"""`python -m services.lake`: lands events in the lake's Delta tables, until SIGTERM or SIGINT."""

import asyncio
import logging
import os
import sys
from typing import Final

from services.lake.app import LakeProcess
from services.lake.driver.spark import LakeSpark
from services.lake.settings import LakeSettings
from shared import logs
from shared.lake.settings import URL_MISSING, LakeStorageSettings
from shared.priority import come_last
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.registry.factory import open_registry
from shared.settings import KafkaSettings, RegistrySettings

log = logging.getLogger(__name__)

EXIT_USAGE: Final = 2


def main() -> int:
    """Run until a stop signal; return the exit code, 2 for wrong settings."""
    logs.set_up("lake")
    try:
        settings, stored = read_settings(LakeSettings), read_settings(LakeStorageSettings)
        kafka, registry = read_settings(KafkaSettings), read_settings(RegistrySettings)
    except WrongSettingsError as e:
        log.error("a setting is wrong: the service does not start", extra={"reason": str(e)})  # noqa: TRY400
        return EXIT_USAGE
    if not stored.url:
        log.error(URL_MISSING)
        return EXIT_USAGE
    logs.set_up("lake", settings.log_level)
    warn_of_unknown(LakeSettings, LakeStorageSettings, KafkaSettings, RegistrySettings)
    come_last()  # rows in Postgres are more urgent; Spark and its workers inherit the priority
    # A failpoint in a Spark worker means this process, not the worker (tests only).
    os.environ.setdefault("ONRAMP_FAILPOINT_PID", str(os.getpid()))
    process = LakeProcess(
        settings, stored.storage, kafka, open_registry(registry, kafka), lambda: LakeSpark(settings)
    )
    return asyncio.run(process.run())


if __name__ == "__main__":
    sys.exit(main())
