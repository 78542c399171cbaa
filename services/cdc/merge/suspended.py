"""The error of a suspended table: the failure, its cause, and the remedy."""


class SuspendedError(Exception):
    """The table is suspended; others continue.  The text is for operators and has no value of a row."""
