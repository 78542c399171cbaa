"""Parses times of Postgres and of records' headers, whose years may exceed Python's range."""

from datetime import UTC, datetime


def as_time(text: object) -> datetime | None:
    """Return a time with its offset (UTC without one), or None outside the years 1 to 9999 in UTC.

    A client may write any text into a header.
    """
    try:
        found = datetime.fromisoformat(str(text))
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        found.astimezone(UTC)  # 9999-12-31T23:59:59-08:00 is in the year 10000
    except (ValueError, OverflowError):
        return None
    return found


def as_moment(milliseconds: int) -> datetime | None:
    """Return the time of a record, chosen by its client, or None outside the years 1 to 9999."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
