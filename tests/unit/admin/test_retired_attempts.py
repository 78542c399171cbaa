"""Attempts at events of a retired database are released, and those of a similar name are not."""

from datetime import UTC, datetime

from services.admin.attempts import Attempt, of_retired

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def attempts(*destinations: str) -> list[Attempt]:
    return [Attempt(n, "t", "orders", 0, n, each, 1, WHEN, 1) for n, each in enumerate(destinations)]


def released(database: str, destinations: list[str], **states: bool) -> list[str]:
    known = {name.replace("_dot_", "."): is_retired for name, is_retired in states.items()}
    return [a.destination for a in of_retired(database, attempts(*destinations), known)]


def test_a_database_whose_name_continues_the_retired_ones_is_not_retired() -> None:
    both = ["main.public.t", "main.b.public.t", "", "/destinations/0"]
    assert released("", both, main=True, main_dot_b=False) == ["main.public.t"]
    assert released("", both, main=False, main_dot_b=True) == ["main.b.public.t"]
    assert released("", both) == []


def test_events_routed_to_a_database_are_released_with_it() -> None:
    assert released("main", ["/destinations/0"], main=True) == ["/destinations/0"]
    assert released("main.b", ["/destinations/0"], main=True, main_dot_b=False) == []
