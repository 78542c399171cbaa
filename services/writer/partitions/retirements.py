"""Databases that an operator has retired: their waiting events are parked, and their baselines end.

An operator writes a request, and the writer writes its result under the same id, so that each request counts
once.  A database that is configured again under an old name is not retired by the earlier request.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from services.writer.partitions.partition_halts import Entry, IncarnationKey

# The first words of the keys on `onramp.settled`: a format, which the admin service writes and reads too.
WORD: Final = "retire"
_DONE: Final = "retired"


class Word(msgspec.Struct, frozen=True):
    """An operator has retired a database."""

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


_decode_word: Final = msgspec.json.Decoder(Word).decode
_decode_retired: Final = msgspec.json.Decoder(Retired).decode


@dataclass(slots=True)
class Retirements:
    """Requests and their results, as stored on `onramp.settled`."""

    words: dict[str, Word] = field(default_factory=dict)
    retired: dict[str, Retired] = field(default_factory=dict)

    def apply(
        self,
        kind: str,
        of: Sequence[str],
        value: bytes,
        baselines: Mapping[IncarnationKey, dict[str, int]],
    ) -> bool:
        """Apply an entry; return False when it is of another kind.  Raises one of `UNREADABLE`.

        The baselines of a retired database end: if the database returns, it gets new ones.
        """
        if kind == WORD:
            self.words[of[0]] = _decode_word(value)
        elif kind == _DONE:
            self.retired[of[0]] = retired = _decode_retired(value)
            for names in baselines.values() if retired.upto is not None else ():
                names.pop(of[0], None)
        else:
            return False
        return True

    def pending(self) -> dict[str, Word]:
        """Return the requests without a result, by database."""
        return {n: w for n, w in self.words.items() if n not in self.retired or self.retired[n].id != w.id}

    def is_over(self, database: str, partition: int, offset: int) -> bool:
        """Return whether the event at `offset` of that partition of `onramp.system_errors` waits no more."""
        retired = self.retired.get(database)
        return retired is not None and offset < (retired.upto or {}).get(partition, 0)

    @staticmethod
    def done_entries(database: str, word: Word, upto: Mapping[int, int] | None) -> list[Entry]:
        """Return the entry that records the result of `request`."""
        return [(f"{_DONE}/{database}", msgspec.json.encode(Retired(word.id, upto)))]


def names_in(baselines: Mapping[IncarnationKey, Mapping[str, int]]) -> Collection[str]:
    """Return the databases that have a baseline."""
    return {name for names in baselines.values() for name in names}
