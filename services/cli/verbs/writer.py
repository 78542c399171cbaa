"""`onramp writer`: the writer alone, in the foreground."""

import os
import sys


def writer() -> None:
    """Run the writer until Ctrl-C or SIGTERM: from Kafka into Postgres.

    Settings come from the environment (docs/settings.md). The jars of Spark's Kafka connector are
    found in the download cache unless ONRAMP_WRITER_SPARK_JARS names them. For example:

    ONRAMP_KAFKA_BOOTSTRAP=127.0.0.1:9092 ONRAMP_WRITER_DSN=postgresql://me@127.0.0.1/db onramp writer
    """
    from stack.jars import ensure_jars
    from stack.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    if not os.environ.get("ONRAMP_WRITER_SPARK_JARS"):
        os.environ["ONRAMP_WRITER_SPARK_JARS"] = ",".join(map(str, ensure_jars("spark")))
    # In this very process, so that signals and the exit code are the writer's own.
    os.execv(sys.executable, [sys.executable, "-m", "services.writer"])  # noqa: S606 - no shell is meant
