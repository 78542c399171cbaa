"""Reports of progress: steps that take time, and warnings."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Report(Protocol):
    """The interface of a report: a terminal, plain lines, or none."""

    def step(self, text: str) -> AbstractContextManager[None]:
        """Report a step; it is done when the context ends."""

    def progress(self, text: str) -> None:
        """Report the progress of the current step; frequent calls may be dropped."""

    def note(self, text: str) -> None:
        """Report a line of its own."""


class Silent:
    """A report that discards everything."""

    def step(self, text: str) -> AbstractContextManager[None]:  # noqa: ARG002 - see Report
        """Do nothing."""
        return nullcontext()

    def progress(self, text: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
