"""Times as Postgres writes them: it has years that Python has not."""

from datetime import datetime


def as_time(text: object) -> datetime | None:
    """Return a time that Postgres wrote with its offset, or None outside the years 1 to 9999."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
