"""Pointers of personal fields that a view of an event hides, by the event's name."""

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
def test_known_type_hides_its_personal_fields_and_unknown_type_hides_all_types_fields(
    name: str | None, hidden: tuple[str, ...]
) -> None:
    assert KNOWN.personal_of(name) == hidden
