"""What Spark's Python workers are forked from: PySpark's daemon, with all that a task needs imported.

A worker imports what its first task names, a second or two for each; here it is done once, before the
forks, while the JVM still starts.  What is imported is shared by the workers' memory, and the collector
that PySpark runs after each task (40 ms over all modules, which never become garbage) does not see it.

PySpark prints the traceback of a worker that fails over many lines, with the exception's words; here it is
one line of the log, without them.
"""

import gc
import logging
import os
import sys
from types import SimpleNamespace
from typing import Any

# A thread would be lost in the forks: NumPy's algebra, which nobody here uses, has some.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pyspark import daemon, util

import services.writer.settle.task  # noqa: F401 - and all that it imports
from shared import logs

log = logging.getLogger(__name__)


def run() -> None:
    """Fork workers until Spark closes standard input."""
    logs.set_up("writer")
    _log_tracebacks()
    gc.collect()
    gc.freeze()
    daemon.manager()


def _log_tracebacks() -> None:
    """Have PySpark's modules log where they print: a module's own `print` goes before the builtin one."""
    logged: list[BaseException | None] = [None]

    def log_failure(*_: Any, **__: Any) -> None:
        error = sys.exc_info()[1]
        if error is None or error is not logged[0]:  # some are printed in two pieces
            logged[0] = error
            log.error("Spark's Python worker failed", exc_info=error, extra={"error": type(error).__name__})

    daemon.print = util.print = log_failure  # type: ignore[attr-defined]
    quiet: Any = SimpleNamespace(print_exc=log_failure, format_exc=str)
    daemon.traceback = quiet  # type: ignore[attr-defined]


if __name__ == "__main__":
    run()
