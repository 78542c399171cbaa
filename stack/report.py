"""What is told to whoever waits for the stack: steps that take time, and remarks."""

from contextlib import AbstractContextManager
from typing import Protocol


class Report(Protocol):
    """Where progress goes: a terminal, plain lines, or nowhere."""

    def step(self, what: str) -> AbstractContextManager[None]:
        """Something that takes time begins; it is done when the context ends."""

    def progress(self, what: str) -> None:
        """How far the current step is; comes often, may be dropped."""

    def note(self, what: str) -> None:
        """Something worth a line of its own."""
