"""The error of a suspended table: the failure, its cause, and the remedy."""


class SuspendedError(Exception):
    """This table is suspended; others go on.  The text is for operators and has no value of a row."""
