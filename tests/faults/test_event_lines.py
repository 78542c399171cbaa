"""Event log lines: each has the position and the outcome of an event, and no value or secret."""

from collections import Counter
from typing import Any

import orjson

from tests.fixtures.scenes import Scene
from tests.fixtures.writer import envelope, eventually, make_topics, produce

CANARY = "canary-4711"


def test_every_event_has_a_line_by_default_and_no_line_has_a_value(
    inline: Scene, event_lines: list[bytes]
) -> None:
    make_topics(inline.bootstrap, inline.topic)
    payload = orjson.dumps({"card": CANARY})
    good = [envelope(f"good-{n}", inline.name, payload) for n in range(5)]
    bad = envelope("bad", inline.name, b'{"card":"%b","note":"\\u0000"}' % CANARY.encode())
    nothing = orjson.dumps({"card": CANARY})
    produce(inline.bootstrap, inline.topic, [*good, good[0], bad, nothing], partition=0)
    inline.writer()
    eventually(lambda: inline.landed() == 5)
    eventually(lambda: len(events_of(event_lines)) >= 8)

    found = {line["receipt"]: line for line in events_of(event_lines)}
    assert sorted(found) == [f"{inline.topic}/0/{n}" for n in range(8)]
    outcomes = [found[f"{inline.topic}/0/{n}"]["outcome"] for n in range(8)]
    assert outcomes == ["landed"] * 5 + ["duplicate", "parked", "parked"]
    rows = [found[f"{inline.topic}/0/{n}"] for n in range(7)]
    assert {(r["database"], r["table"], r["step"]) for r in rows} == {
        (inline.database, f"events.{inline.name}", "persist")
    }
    assert [r["event_id"] for r in rows] == [*(f"good-{n}" for n in range(5)), "good-0", "bad"]
    assert [found[f"{inline.topic}/0/{n}"].get("code") for n in (6, 7)] == ["data_rejected", "no_envelope"]
    assert Counter(line["message"] for line in map(orjson.loads, event_lines)) == {"event": 8}
    assert CANARY.encode() not in b"".join(event_lines)


def events_of(written: list[bytes]) -> list[dict[str, Any]]:
    return [line for line in map(orjson.loads, written) if line["message"] == "event"]
