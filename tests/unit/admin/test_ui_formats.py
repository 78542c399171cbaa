"""Numbers of the pages have their nouns in the right number."""

import pytest

from services.admin.ui.formats import quantity


@pytest.mark.parametrize(
    ("value", "nouns", "text"),
    [
        (0, ("event",), "0 events"),
        (1, ("event",), "1 event"),
        (1_502, ("event",), "1,502 events"),
        (1, ("event waits", "events wait"), "1 event waits"),
        (2, ("event waits", "events wait"), "2 events wait"),
    ],
)
def test_a_number_has_its_noun(value: int, nouns: tuple[str, ...], text: str) -> None:
    assert quantity(value, *nouns) == text
