"""Text of others for a terminal: names, reasons and values may have control characters."""


def printable(text: str) -> str:
    """Return `text` with its control characters escaped, for example those of ANSI and bidirectional text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
