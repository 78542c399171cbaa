"""The one exception of the embedded stack, so that a caller can show it without a traceback."""


class StackError(Exception):
    """A part of the stack cannot do its work.

    Attributes:
        what: what happened, as one sentence that names the part.
        fix: instructions for a person; empty without general ones.
        log_tail: the end of the part's own log, empty when it has none.
    """

    def __init__(self, problem: str, *, fix: str = "", log_tail: str = "") -> None:
        """Store the parts separately: a terminal shows them differently from a test."""
        super().__init__(problem)
        self.problem = problem
        self.fix = fix
        self.log_tail = log_tail

    def __str__(self) -> str:
        """Join what happened, how to fix it, and the end of the log."""
        parts = [self.problem]
        if self.fix:
            parts.append(self.fix)
        if self.log_tail:
            parts.append(f"The end of its log:\n{self.log_tail}")
        return "\n".join(parts)


class UnavailableError(StackError):
    """A requirement is missing: no part of Onramp has failed."""
