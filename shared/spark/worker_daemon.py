"""The daemon that forks Spark's Python workers: PySpark's own, with all modules of a task imported.

A worker would import the modules of its first task, which takes a second or two for each worker.  Each
service has a module that imports its task and calls `run`: modules are imported once, before the forks, while
the JVM still starts.  The workers share the modules' memory, and the collection that PySpark runs after each
task (40 ms over all modules) skips them.

PySpark prints the traceback of a failed worker over many lines, with the exception's text.  The daemon logs
it as one line, without the text.
"""

import gc
import logging
import os
import sys
from types import SimpleNamespace
from typing import Any

# A fork loses threads: NumPy's linear algebra, which no task uses, would start some.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pyspark import daemon, util

from shared import logs

log = logging.getLogger(__name__)


def run(service: str) -> None:
    """Fork workers, which log as `service`, until Spark closes standard input."""
    logs.set_up(service)
    _log_tracebacks()
    gc.collect()
    gc.freeze()
    daemon.manager()


def _log_tracebacks() -> None:
    """Make PySpark's modules log instead of print: a module's own `print` hides the builtin one."""
    logged: list[BaseException | None] = [None]

    def log_failure(*_: Any, **__: Any) -> None:
        error = sys.exc_info()[1]
        if error is None or error is not logged[0]:  # PySpark prints some errors in two pieces
            logged[0] = error
            log.error("Spark's Python worker failed", exc_info=error, extra={"error": type(error).__name__})

    daemon.print = util.print = log_failure  # type: ignore[attr-defined]
    quiet: Any = SimpleNamespace(print_exc=log_failure, format_exc=str)
    daemon.traceback = quiet  # type: ignore[attr-defined]
