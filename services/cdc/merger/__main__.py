"""`python -m services.cdc.merger`: merges landed changes of sources into public tables."""

import signal
import sys

from services.cdc.merger.app import MergerProcess
from services.cdc.merger.settings import MergerSettings
from shared.logs import set_up
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.registry.factory import open_registry
from shared.settings import KafkaSettings, RegistrySettings
from shared.writer_databases import WriterDatabases


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        settings, databases = read_settings(MergerSettings), read_settings(WriterDatabases)
        registry = open_registry(read_settings(RegistrySettings), read_settings(KafkaSettings))
    except WrongSettingsError as e:
        sys.exit(f"The merger does not start:\n{e}")
    if not databases.owners_by_name():
        sys.exit(
            "The merger does not start: no database is configured. Name the writer's default one in "
            "ONRAMP_WRITER_DSN (docs/settings.md)."
        )
    set_up("merger", settings.log_level)
    warn_of_unknown(MergerSettings, KafkaSettings, RegistrySettings)
    process = MergerProcess(settings, databases, registry)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: process.stop())
    process.run()


if __name__ == "__main__":
    main()
