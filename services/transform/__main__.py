"""`python -m services.transform`: runs the transforms of the registry, until SIGTERM or SIGINT."""

import asyncio
import functools
import logging
import os
import sys
from typing import Final

from services.transform.app import TransformProcess
from services.transform.driver.lane_jobs import LaneJobs
from services.transform.function.lookups import LookupTable
from services.transform.function.lookups_sql import read_lookup
from services.transform.settings import TransformSettings
from shared import logs
from shared.errors import NOT_CONFIGURED, InfrastructureError
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.registry.factory import open_registry
from shared.registry.transforms import Lookup
from shared.settings import KafkaSettings, RegistrySettings
from shared.writer_databases import WriterDatabases

log = logging.getLogger(__name__)

EXIT_USAGE: Final = 2


def main() -> int:
    """Run until a stop signal; return the exit code, 2 for wrong settings."""
    logs.set_up("transform")
    try:
        settings, kafka = read_settings(TransformSettings), read_settings(KafkaSettings)
        registry, databases = read_settings(RegistrySettings), read_settings(WriterDatabases)
    except WrongSettingsError as e:
        log.error("a setting is wrong: the service does not start", extra={"reason": str(e)})  # noqa: TRY400
        return EXIT_USAGE
    logs.set_up("transform", settings.log_level)
    warn_of_unknown(TransformSettings, KafkaSettings, RegistrySettings)
    # A failpoint in a Spark worker means this process, not the worker (tests only).
    os.environ.setdefault("ONRAMP_FAILPOINT_PID", str(os.getpid()))
    process = TransformProcess(
        settings,
        kafka,
        open_registry(registry, kafka),
        lambda: LaneJobs(settings),
        functools.partial(_read, databases.by_name()),
    )
    return asyncio.run(process.run())


def _read(dsns: dict[str, str], name: str, lookup: Lookup) -> LookupTable:
    """Return a lookup's snapshot.  Raise `InfrastructureError`, also for a database without a DSN."""
    dsn = dsns.get(lookup.database)
    if dsn is None:
        raise InfrastructureError(
            NOT_CONFIGURED, f"lookup {name}: no DSN is configured for {lookup.database}"
        )
    return read_lookup(name, lookup, dsn)


if __name__ == "__main__":
    sys.exit(main())
