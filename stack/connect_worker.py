"""`python -m stack.connect_worker`: Kafka Connect in the foreground, the entry point of its image.

The worker has the settings of `onramp up`, and replaces this process: signals reach Java itself.
"""

import sys

from shared.read_settings import WrongSettingsError, read_settings
from shared.settings import KafkaSettings
from stack.connect import Connect
from stack.connect_settings import ConnectSettings
from stack.errors import StackError


def main() -> None:
    """Become the worker."""
    try:
        settings, kafka = read_settings(ConnectSettings), read_settings(KafkaSettings)
        worker = Connect(
            settings.folder,
            kafka.bootstrap,
            host=settings.host,
            port=settings.port,
            replication=kafka.replication,
            heap_mb=settings.heap_mb,
            security=kafka.security,
            secrets=settings.sources_folder,
        )
        worker.replace_process()
    except (WrongSettingsError, StackError, OSError) as error:
        sys.exit(f"Kafka Connect does not start:\n{error}")


if __name__ == "__main__":
    main()
