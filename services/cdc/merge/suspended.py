"""Why a table is held: what, why, and how to fix it."""


class SuspendedError(Exception):
    """This table cannot go on; others do.  Its text is for the operator and has no value of a row."""
