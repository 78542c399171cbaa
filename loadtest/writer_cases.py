"""The cases of the writer's bench: the records of each, and the table where they land."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from shared import wire
from stack.registry import OwnRegistry

LANDING: Final = "landing"
TYPED: Final = "typed"
PACKETS: Final = "packets"
_NAME: Final = "bench"
_ENVELOPE: Final = (
    '{{"metadata":{{"id":"event-{n:08d}","timestamp":"2026-11-21T08:00:00Z","version":"1"}},'
    '"event_name":"{name}","payload":{{"order":{n},"amount":{cents},"note":"{note}"}}}}'
)
_PACKET: Final = (
    '{{"pipeline_context":{{"destinations":[{{"type":"postgres","vanity":"onramp","schema":"public",'
    '"table":"bench"}}]}},"data":{{"i":{n:08d}}}}}'
)
_TABLES: Final = {
    TYPED: 'CREATE TABLE bench (_id text PRIMARY KEY, "order" bigint, amount numeric, note text)',
    PACKETS: "CREATE TABLE bench (i bigint PRIMARY KEY)",
}
#: A repeat comes so many events after its first.
_BEHIND: Final = 997
_PER_CENT: Final = 100


class Message(NamedTuple):
    """A record for Kafka.  Without a `partition` its key chooses one."""

    topic: str
    key: str
    value: bytes
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of backlog.  `size`: bytes of an envelope in all; a packet's `data` has 14."""

    name: str
    form: str = LANDING
    size: int = 250
    topics: int = 1
    #: Percentage of records that repeat an earlier event, or cannot land.
    repeats: float = 0.0
    bad: float = 0.0
    #: Percentage of records in the first partition.
    hot: int = 0

    @property
    def names(self) -> list[str]:
        """The event names."""
        return [_NAME] if self.topics == 1 else [f"{_NAME}_{n}" for n in range(self.topics)]

    @property
    def table(self) -> str:
        """The table, or one of them."""
        return f"events.{self.names[0]}" if self.form == LANDING else f"public.{_NAME}"

    @property
    def ddl(self) -> str:
        """The SQL that prepares the table; empty where the writer creates it."""
        return _TABLES.get(self.form, "")

    def registry(self, bootstrap: str) -> dict[str, str]:
        """Write this case's routes into a separate registry; return the writer's variables."""
        if self.form != TYPED:
            return {}
        routed = {"destinations": [{"type": "postgres", "schema": "public", "table": _NAME}]}
        return OwnRegistry(bootstrap, {"event_types": {_NAME: routed}}).env

    def messages(self, events: int) -> Iterator[Message]:
        """Yield the backlog, in order."""
        names = self.names
        for number in range(events):
            n = number - _BEHIND if number > _BEHIND and _falls_on(number, self.repeats) else number
            name = names[n % len(names)]
            value = self._value(n, name, bad=_falls_on(number + 1, self.bad)).encode()
            partition = 0 if number % _PER_CENT < self.hot else None
            yield Message(wire.topic_of(name), f"event-{n:08d}", value, partition)

    def _value(self, n: int, name: str, *, bad: bool) -> str:
        if self.form == PACKETS:
            return _PACKET.format(n=10_000_000 + n)
        cents = '"many"' if bad and self.form == TYPED else f"{n % 10_000}.25"
        whole = _ENVELOPE.format(n=n, name=name, cents=cents, note="")
        value = _ENVELOPE.format(n=n, name=name, cents=cents, note="x" * max(self.size - len(whole), 0))
        return value[:-1] if bad and self.form == LANDING else value


def _falls_on(number: int, per_cent: float) -> bool:
    """Return whether `number` is one of `per_cent` in a hundred, evenly spread."""
    return int(number * per_cent / _PER_CENT) != int((number - 1) * per_cent / _PER_CENT)


_LANDING_250: Final = Case("landing-250b")
CASES: Final = {
    case.name: case
    for case in (
        _LANDING_250,
        Case("typed-250b", TYPED),
        Case("packets-14b", PACKETS),
        replace(_LANDING_250, name="repeats-0.1%", repeats=0.1),
        replace(_LANDING_250, name="repeats-10%", repeats=10.0),
        replace(_LANDING_250, name="bad-1%", bad=1.0),
        Case("typed-bad-1%", TYPED, bad=1.0),
        replace(_LANDING_250, name="topics-50", topics=50),
        replace(_LANDING_250, name="topics-500", topics=500),
        replace(_LANDING_250, name="hot-90%", hot=90),
    )
}
