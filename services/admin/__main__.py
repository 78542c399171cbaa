"""`python -m services.admin`: keeps parked events, and serves them to operators on this machine."""

import signal
import sys
from typing import Final

import uvicorn

from services.admin.app import create
from services.admin.destinations import DestinationSettings
from services.admin.segments.folder import Segments
from services.admin.settings import AdminSettings
from shared.logs import set_up
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.settings import KafkaSettings

#: The writer's setting that names the default database.
_DEFAULT_DSN: Final = "ONRAMP_WRITER_DSN"


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    # uvicorn stops gracefully and then raises the signal again: that is a success, not a crash.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        settings, kafka = read_settings(AdminSettings), read_settings(KafkaSettings)
        destinations = read_settings(DestinationSettings)
    except WrongSettingsError as e:
        sys.exit(f"The admin service does not start:\n{e}")
    dsn = settings.dsn.get_secret_value() or destinations.dsn.get_secret_value()
    if not dsn:
        sys.exit(
            "The admin service does not start: no control database is known. Name one in ONRAMP_ADMIN_DSN, "
            f"or the writer's default one in {_DEFAULT_DSN} (docs/settings.md)."
        )
    set_up("admin", settings.log_level)
    warn_of_unknown(AdminSettings, KafkaSettings)
    uvicorn.run(
        create(
            kafka.brokers, dsn, destinations.by_name(), Segments(settings.store) if settings.store else None
        ),
        host=settings.host,
        port=settings.port,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()
