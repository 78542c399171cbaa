"""Parses times of Postgres, whose years may exceed Python's range."""

from datetime import datetime


def as_time(text: object) -> datetime | None:
    """Return a time that Postgres wrote with its offset, or None outside the years 1 to 9999."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
