"""The part of a statement that one topic has, and the number of events that a statement accounts for.

A page shows one event type of a statement that was made for all: making another one would read Kafka again.
"""

from services.ops.statement.balance import Statement


def of_topic(whole: Statement, topic: str) -> Statement:
    """Return the lines, differences and missing parts of `topic`; missing databases concern every topic."""
    lines = [line for line in whole.lines if line.topic == topic]
    destinations = {each.destination for line in lines for each in line.destinations}
    states = whole.parked_states
    return Statement(
        lines=lines,
        # A name of Kafka has neither a colon nor a space.
        differences=[each for each in whole.differences if each.startswith(f"{topic}: ")],
        unevaluated={
            part: reason
            for part, reason in whole.unevaluated.items()
            if " in " not in part or part.startswith(f"{topic} in ")
        },
        in_flight={name: n for name, n in whole.in_flight.items() if name == topic},
        tables=[each for each in whole.tables if f"{each[0]}.{each[1].destination}" in destinations],
        transforms=[each for each in whole.transforms if topic in each.topics],
        lake=[each for each in whole.lake if each.topic == topic],
        times=whole.times,
        parked_states=None if states is None else {key: n for key, n in states.items() if key[0] == topic},
    )


def accepted(found: Statement) -> int:
    """Return the records of all topics; a topic that several databases read counts once."""
    by_topic: dict[str, int] = {}
    for line in found.lines:
        routed = sum(each.records for each in line.destinations)
        records = routed if line.records is None else line.records
        by_topic[line.topic] = max(by_topic.get(line.topic, 0), records)
    return sum(by_topic.values())
