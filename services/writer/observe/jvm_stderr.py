"""Standard error of a JVM, without the warnings that it gives before it can be told not to.

Spark has its JVM load an incubator module, of which the JVM warns each time.  No option silences it.
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
    """Pass on what processes that are started in the block write to standard error, but for warnings.

    For programs that end with their JVM: when this process is gone, nobody reads what the JVM writes.
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
