"""`onramp admin`: the admin service alone, in the foreground."""

import os
import sys


def admin() -> None:
    """Run the admin service until Ctrl-C or SIGTERM: it stores parked events and serves /v1 on this machine.

    Settings come from the environment (docs/settings.md). For example:

    ONRAMP_KAFKA_BOOTSTRAP=127.0.0.1:9092 ONRAMP_ADMIN_DSN=postgresql://me@127.0.0.1/db onramp admin
    """
    # In the same process, so that signals and the exit code are the service's.
    os.execv(sys.executable, [sys.executable, "-m", "services.admin"])  # noqa: S606 - no shell is meant
