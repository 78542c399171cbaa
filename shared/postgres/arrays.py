"""Postgres array literals: one text for thousands of values, which a driver would quote one by one."""

from collections.abc import Iterable


def numbers(values: Iterable[int]) -> str:
    """Return the literal of an array of integers."""
    return f"{{{','.join(map(str, values))}}}"


def texts(values: Iterable[str | None]) -> str:
    """Return the literal of an array of texts, uuids or JSON; None is NULL."""
    return f"{{{','.join('NULL' if value is None else _quoted(value) for value in values)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
