"""What a view of an event has to hide, by the event's name."""

import pytest

from shared.registry import Snapshot

KNOWN = Snapshot.model_validate(
    {"event_types": {"order": {"personal": ["/mail"]}, "pay": {"personal": ["/card", "/mail"]}, "open": {}}}
)


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("order", ("/mail",)),
        ("pay", ("/card", "/mail")),
        ("open", ()),
        ("unregistered", ("/card", "/mail")),
        (None, ("/card", "/mail")),
    ],
)
def test_of_a_type_that_is_not_known_whatever_any_type_calls_personal_is_hidden(
    name: str | None, hidden: tuple[str, ...]
) -> None:
    assert KNOWN.personal_of(name) == hidden
