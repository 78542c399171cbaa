"""Calls a function repeatedly from a thread while a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeatedly(seconds: float, poll: Callable[[], None]) -> Iterator[None]:
    """Call `poll` from a separate thread, `seconds` after the last call, until the block ends."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(seconds):
            poll()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
