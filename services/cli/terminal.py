"""Progress output: a spinner and check marks on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.status import Status

from stack.report import Report

_EVERY_SECONDS = 10.0


def report_to(stream: IO[str]) -> Report:
    """Return the report that suits this stream."""
    console = Console(file=stream, highlight=False)
    return _Live(console) if console.is_terminal else _Lines(console)


class _Lines:
    """Plain lines: for logs, CI and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = 0.0

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        began = self._last = time.monotonic()
        self.note(f"{text} …")
        yield
        self.note(f"{text}: done in {time.monotonic() - began:.1f} s")

    def progress(self, text: str) -> None:
        # Occasional lines show progress; one per batch would hide other output.
        if time.monotonic() - self._last >= _EVERY_SECONDS:
            self._last = time.monotonic()
            self.note(f"  {text}")

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


class _Live:
    """A spinner with the current step's progress, a check mark when it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._title = ""

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        began = time.monotonic()
        self._title = text
        self._status = self._console.status(text)
        try:
            with self._status:
                yield
        except BaseException:
            self._console.print(f"[red]✗[/] {text}")
            raise
        finally:
            self._status = None
        self._console.print(f"[green]✓[/] {text} [dim]({time.monotonic() - began:.1f} s)[/]")

    def progress(self, text: str) -> None:
        if self._status is not None:
            self._status.update(f"{self._title}: {text}")

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
