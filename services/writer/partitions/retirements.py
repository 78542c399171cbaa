"""Databases that an operator has retired: their waiting events are parked, and their baselines end.

An operator writes a request, and the writer writes its result under the same id, so that each request counts
once.  A database that is configured again under an old name is not retired by the earlier request.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from services.writer.partitions.partition_halts import Entry, GenerationKey

# The first parts of the keys on `onramp.settled`: a format that the admin service writes and reads too.
REQUEST: Final = "retire"
_DONE: Final = "retired"


class RetireRequest(msgspec.Struct, frozen=True):
    """An operator's request to retire a database."""

    id: str
    by: str
    reason: str


class Retired(msgspec.Struct, frozen=True):
    """The result of the request with that id.

    `upto`: by partition of `onramp.system_errors`, the offset below which no event waits for the database
    any more.  None: the database was configured when the request was read, and the request has no effect.
    """

    id: str
    upto: Mapping[int, int] | None = None


_decode_request: Final = msgspec.json.Decoder(RetireRequest).decode
_decode_retired: Final = msgspec.json.Decoder(Retired).decode


@dataclass(slots=True)
class Retirements:
    """Requests and their results, as stored on `onramp.settled`."""

    requests: dict[str, RetireRequest] = field(default_factory=dict)
    retired: dict[str, Retired] = field(default_factory=dict)

    def apply(
        self,
        kind: str,
        of: Sequence[str],
        value: bytes,
        baselines: Mapping[GenerationKey, dict[str, int]],
    ) -> bool:
        """Apply an entry; return False when it is of another kind.  Raises one of `UNREADABLE`.

        The baselines of a retired database end: if the database returns, it gets new ones.
        """
        if kind == REQUEST:
            self.requests[of[0]] = _decode_request(value)
        elif kind == _DONE:
            self.retired[of[0]] = retired = _decode_retired(value)
            for names in baselines.values() if retired.upto is not None else ():
                names.pop(of[0], None)
        else:
            return False
        return True

    def pending(self) -> dict[str, RetireRequest]:
        """Return the requests without a result, by database."""
        return {n: r for n, r in self.requests.items() if n not in self.retired or self.retired[n].id != r.id}

    def is_over(self, database: str, partition: int, offset: int) -> bool:
        """Return whether the event at `offset` of that partition of `onramp.system_errors` waits no more."""
        retired = self.retired.get(database)
        return retired is not None and offset < (retired.upto or {}).get(partition, 0)

    @staticmethod
    def done_entries(database: str, request: RetireRequest, upto: Mapping[int, int] | None) -> list[Entry]:
        """Return the entry that records the result of `request`."""
        return [(f"{_DONE}/{database}", msgspec.json.encode(Retired(request.id, upto)))]


def names_in(baselines: Mapping[GenerationKey, Mapping[str, int]]) -> Collection[str]:
    """Return the databases that have a baseline."""
    return {name for names in baselines.values() for name in names}
