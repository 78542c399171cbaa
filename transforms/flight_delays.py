"""Emits a flight_delayed event for each flight that departed at least half an hour late."""


def transform(event, lookup):
    """Return the event to emit, a list of them, or None to drop the event."""
    flight = event["payload"]
    if not flight["dep_delay"] or flight["dep_delay"] < 30:
        return None
    airline = lookup("airlines", flight["carrier"]) or {}
    return {
        "event_name": "flight_delayed",
        "payload": {"carrier": airline.get("name"), "minutes": flight["dep_delay"]},
    }
