"""Filters from a JVM's standard error the warnings that it writes before any logging option applies.

Spark makes its JVM load an incubator module, and the JVM warns about that at each start.  No option
silences the warning.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_STDERR: Final = 2
_WARNINGS: Final = (b"WARNING: Using incubator modules", b"NOTE: Picked up")


@contextmanager
def without_warnings() -> Iterator[None]:
    """Pass on the standard error of processes started in the block, without the warnings.

    For programs that end with their JVM: after this process has ended, the JVM's output is not read.
    """
    stderr = os.dup(_STDERR)
    read, write = os.pipe()
    os.dup2(write, _STDERR)
    os.close(write)
    threading.Thread(target=_pass_on, args=(read, stderr), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(stderr, _STDERR)


def _pass_on(read: int, stderr: int) -> None:
    with os.fdopen(read, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(_WARNINGS):
                out.write(line)
