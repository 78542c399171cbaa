"""The error of a suspended table: the failure, its cause, and the remedy."""


class HeldError(Exception):
    """This table cannot go on; others do.  Its text is for the operator and has no value of a row."""
