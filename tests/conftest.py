"""Loads the test plugins; tests/fixtures has the fixtures of each."""

import os
import sys

# The tests start Python a hundred times: compiled modules are kept for the next start (0.3 CPU seconds each).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A JVM of a test lives for seconds: what the second compiler would gain it never earns back
# (measured: 7 instead of 11 CPU seconds from a JVM's start to Spark's first batch). Its class files come from
# jars with the checksums of a lock: without verifying their bytecode a broker starts in 3.6 instead of 4.2.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
os.environ.setdefault("JDK_JAVA_OPTIONS", _QUICK_JVM)

# Messages of the command line are wrapped as in CI, whatever terminal the tests are run in.
os.environ["COLUMNS"] = "80"

# Tests about keys say so; the others are about events.
os.environ.setdefault("ONRAMP_ALLOW_KEYLESS", "true")
# Tests read a counter once its event is counted; those of new counters say so.
os.environ.setdefault("ONRAMP_INGEST_NEW_COUNTER_SECONDS", "0")
os.environ.setdefault("ONRAMP_WRITER_NEW_COUNTER_SECONDS", "0")

pytest_plugins = (
    "tests.fixtures.early_failures",
    "tests.fixtures.second_try",
    "tests.fixtures.fix_browser",
    "tests.fixtures.fix_cost",
    "tests.fixtures.fix_gc",
    "tests.fixtures.fix_http",
    "tests.fixtures.fix_kafka",
    "tests.fixtures.fix_postgres",
    "tests.fixtures.fix_prometheus",
    "tests.fixtures.fix_s3",
    "tests.fixtures.fix_stack",
    "tests.fixtures.fix_tls",
    "tests.fixtures.folder_schedule",
    "tests.fixtures.memory_folder",
)
