"""Good events are cached for a minute, by group and by the rights of the caller."""

from services.admin.ui import good_events
from services.admin.ui.good_events import GoodEvents


def test_a_good_event_is_remembered_for_a_minute_and_for_the_same_rights() -> None:
    now = [0.0]
    events = GoodEvents(lambda: now[0])
    assert events.find((1, None)) is None
    events.put((1, None), {"offset": 7})
    events.put((2, ("order_*",)), None)
    found = events.find((1, None))
    assert found is not None
    assert found.event == {"offset": 7}
    assert events.find((1, ("order_*",))) is None
    known = events.find((2, ("order_*",)))
    assert known is not None
    assert known.event is None, "that there is none is known, too"
    now[0] = 60.0
    assert events.find((1, None)) is None


def test_the_oldest_is_forgotten_beyond_the_limit() -> None:
    events = GoodEvents()
    for number in range(good_events._MAX + 1):
        events.put((number, None), None)
    assert events.find((0, None)) is None
    assert events.find((good_events._MAX, None)) is not None
