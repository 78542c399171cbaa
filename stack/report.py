"""What is told to whoever waits for the stack: steps that take time, and remarks."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Report(Protocol):
    """Where progress goes: a terminal, plain lines, or nowhere."""

    def step(self, text: str) -> AbstractContextManager[None]:
        """Something that takes time starts; it is done when the context ends."""

    def progress(self, text: str) -> None:
        """How far the current step is; comes often, may be dropped."""

    def note(self, text: str) -> None:
        """Something worth a line of its own."""


class Silent:
    """A report that nobody reads."""

    def step(self, text: str) -> AbstractContextManager[None]:  # noqa: ARG002 - see Report
        """Do nothing."""
        return nullcontext()

    def progress(self, text: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
