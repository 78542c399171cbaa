"""Why a table is held: what, why, and how to fix it."""


class HeldError(Exception):
    """This table cannot go on; others do.  Its text is for the operator and has no value of a row."""


class NotYetError(HeldError):
    """It goes on by itself as soon as the agent has told what is missing."""
