"""`onramp writer`: the writer alone, in the foreground."""

import os
import sys


def writer() -> None:
    """Run the writer until Ctrl-C or SIGTERM: from Kafka into Postgres.

    Settings come from the environment (docs/settings.md). For example:

    ONRAMP_KAFKA_BOOTSTRAP=127.0.0.1:9092 ONRAMP_WRITER_DSN=postgresql://me@127.0.0.1/db onramp writer
    """
    from stack.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    # In this very process, so that signals and the exit code are the writer's own.
    os.execv(sys.executable, [sys.executable, "-m", "services.writer"])  # noqa: S606 - no shell is meant
