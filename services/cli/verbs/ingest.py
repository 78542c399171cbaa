"""`onramp ingest`: the gateway alone, in the foreground."""

import os
import sys


def ingest() -> None:
    """Run the gateway until Ctrl-C or SIGTERM. It needs Kafka and nothing else.

    Settings come from the environment (docs/settings.md), for example:

    ONRAMP_KAFKA_BOOTSTRAP=127.0.0.1:9092 ONRAMP_INGEST_PORT=8080 onramp ingest
    """
    # In the same process, so that signals and the exit code are the gateway's.
    os.execv(sys.executable, [sys.executable, "-m", "services.ingest"])  # noqa: S606 - no shell is meant
