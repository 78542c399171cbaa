"""`python -m services.cdc.agent`: configures Kafka Connect for the sources that the registry names."""

import signal
import sys

import uvicorn

from services.cdc.agent.app import create
from services.cdc.agent.settings import AgentSettings
from shared.http11 import Http11Protocol
from shared.logs import set_up
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.registry.factory import open_registry
from shared.settings import KafkaSettings, RegistrySettings
from shared.writer_databases import WriterDatabases


def main() -> None:
    """Run the agent until SIGTERM or SIGINT."""
    # uvicorn stops gracefully and then raises the signal again: this is a success, not a crash.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        settings, kafka = read_settings(AgentSettings), read_settings(KafkaSettings)
        databases = read_settings(WriterDatabases).owners_by_name()
        registry = open_registry(read_settings(RegistrySettings), kafka)
    except WrongSettingsError as e:
        sys.exit(f"The agent does not start:\n{e}")
    if not databases:
        sys.exit(
            "The agent does not start: no database is configured. Name the writer's "
            "default one in ONRAMP_WRITER_DSN (docs/settings.md)."
        )
    set_up("agent", settings.log_level)
    warn_of_unknown(AgentSettings, KafkaSettings, RegistrySettings)
    registry.refresh()
    try:
        uvicorn.run(
            create(settings, kafka, registry, databases),
            host=settings.http_host,
            port=settings.http_port,
            http=Http11Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=5,
        )
    finally:  # the signal ends this program while uvicorn runs
        registry.close()


if __name__ == "__main__":
    main()
