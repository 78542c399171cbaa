"""`python -m services.tracer`: sends tracers and watches their rows, until SIGTERM or SIGINT."""

import asyncio
import sys

from services.tracer.app import run
from services.tracer.journal import InUseError
from services.tracer.settings import TracedSettings, TracerSettings
from shared.lake.settings import URL_MISSING, LakeStorageSettings
from shared.logs import set_up
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.settings import KafkaSettings
from shared.writer_databases import WriterDatabases


def main() -> None:
    """Trace until a signal."""
    try:
        settings, traced = read_settings(TracerSettings), read_settings(TracedSettings)
        kafka, databases = read_settings(KafkaSettings), read_settings(WriterDatabases)
        destinations = settings.destinations(databases)
        lake = read_settings(LakeStorageSettings) if settings.lake_table else None
        if lake is not None and not lake.url:
            sys.exit(f"The tracer does not start: {URL_MISSING}")
    except (WrongSettingsError, ValueError) as e:
        sys.exit(f"The tracer does not start:\n{e}")
    set_up("tracer", settings.log_level)
    warn_of_unknown(TracerSettings, KafkaSettings)
    try:
        asyncio.run(run(settings, traced, kafka.brokers, destinations, lake.storage if lake else None))
    except InUseError as e:
        sys.exit(f"The tracer does not start: {e}. Stop it, or name another file in ONRAMP_TRACER_FILE.")
    except OSError as e:
        sys.exit(
            f"The tracer does not start: {type(e).__name__}: {e.strerror} ({e.filename or settings.port}). "
            "Check ONRAMP_TRACER_FILE, ONRAMP_TRACER_API_KEY_FILE and ONRAMP_TRACER_PORT."
        )


if __name__ == "__main__":
    main()
