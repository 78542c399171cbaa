"""Databases that an operator has retired: what waited for them is parked, and they have no past here.

A word is an operator's; what became of it is the writer's, under the same id, so that each word counts once:
a database that is configured again under an old name is not retired by what somebody said of the one before.
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
    """What became of the word of that id.

    `upto`: by partition of `onramp.system_errors`, the offset below which nothing waits for the database any
    more.  None: the database was configured when the word was read, and the word counts for nothing.
    """

    id: str
    upto: Mapping[int, int] | None = None


_decode_word: Final = msgspec.json.Decoder(Word).decode
_decode_retired: Final = msgspec.json.Decoder(Retired).decode


@dataclass(slots=True)
class Retirements:
    """Words, and what became of them, as `onramp.settled` has them."""

    words: dict[str, Word] = field(default_factory=dict)
    retired: dict[str, Retired] = field(default_factory=dict)

    def apply(
        self,
        kind: str,
        of: Sequence[str],
        value: bytes,
        baselines: Mapping[IncarnationKey, dict[str, int]],
    ) -> bool:
        """Take in an entry; False: it is of another kind.  Raises one of `UNREADABLE`.

        Of a database that is retired the baselines end: it is first seen again if it comes back.
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
        """Return the words that nothing has become of, by database."""
        return {n: w for n, w in self.words.items() if n not in self.retired or self.retired[n].id != w.id}

    def is_over(self, database: str, partition: int, offset: int) -> bool:
        """Whether what is at `offset` of that partition of `onramp.system_errors` waits no more."""
        retired = self.retired.get(database)
        return retired is not None and offset < (retired.upto or {}).get(partition, 0)

    @staticmethod
    def done_entries(database: str, word: Word, upto: Mapping[int, int] | None) -> list[Entry]:
        """Return the entry that says what became of `word`."""
        return [(f"{_DONE}/{database}", msgspec.json.encode(Retired(word.id, upto)))]


def names_in(baselines: Mapping[IncarnationKey, Mapping[str, int]]) -> Collection[str]:
    """Return the databases that have a baseline."""
    return {name for names in baselines.values() for name in names}
