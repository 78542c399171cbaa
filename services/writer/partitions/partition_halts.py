"""Halts of partitions, a person's word about each, and the life that a partition goes on with after it.

A log that lost events goes on, when a person accepts it, as another life of its partition: with an
id of its own, from an offset that is written down.  Ledgers, totals, plans and markers of the life
before stay as they are; nothing is ever set back (docs/adr, logs that go back).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import msgspec

from services.writer.model.offsets import Partition
from shared.unreadable import UNREADABLE

LifeKey = tuple[str, int]
"""A life of a partition as the keys name it: the topic's UUID, or the life's own, and the number."""
Entry = tuple[str, bytes]
"""Key and value of a record of `onramp.settled`."""

#: Go on with what Kafka has.
ACCEPT: Final = "accept"

_HALT: Final = "halt"
WORD: Final = "word"
_LINE: Final = "line"


class Halt(msgspec.Struct, frozen=True):
    """A halt that a person may answer.  Another halt of the same partition has another `id`."""

    id: str
    reason: str
    since: str
    over: bool = False


class OperatorDecision(msgspec.Struct, frozen=True):
    """A person's answer to the halt of that id."""

    halt: str
    how: str
    by: str


class HaltRecord(msgspec.Struct, frozen=True):
    """The life that a partition goes on with, from `start` on, as the writer `epoch` wrote it down.

    `before`: those that it went on with until then, which the audit asks for: compaction keeps one line.
    """

    epoch: int
    life: str
    start: int
    before: tuple[str, ...] = ()


_halt: Final = msgspec.json.Decoder(Halt).decode
_word: Final = msgspec.json.Decoder(OperatorDecision).decode
_line: Final = msgspec.json.Decoder(HaltRecord).decode
_bytes: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class PartitionHalts:
    """What `onramp.settled` says of them."""

    halts: dict[Partition, Halt] = field(default_factory=dict)
    words: dict[Partition, OperatorDecision] = field(default_factory=dict)
    lines: dict[LifeKey, HaltRecord] = field(default_factory=dict)

    def apply(self, kind: str, of: Sequence[str], value: bytes) -> bool:
        """Take in an entry; False: it is of another kind."""
        if kind == _HALT:
            self.halts[Partition(of[0], int(of[1]))] = _halt(value)
        elif kind == WORD:
            self.words[Partition(of[0], int(of[1]))] = _word(value)
        elif kind == _LINE:
            line, known = _line(value), self.lines.get((of[0], int(of[1])))
            if known is None or known.epoch <= line.epoch:  # a zombie's word is not the last
                self.lines[of[0], int(of[1])] = line
        else:
            return False
        return True

    def hear(self, of: Sequence[str], value: bytes) -> None:
        """Take in a person's word; what is none is passed over."""
        with suppress(*UNREADABLE):
            self.apply(WORD, of, value)

    def life(self, topic_id: str, number: int) -> str:
        """The life of a topic's partition: the topic's own id, unless a person accepted another."""
        line = self.lines.get((topic_id, number))
        return line.life if line else topic_id

    def start(self, topic_id: str, number: int, otherwise: int) -> int:
        """Where it begins."""
        line = self.lines.get((topic_id, number))
        return line.start if line else otherwise

    def answer(self, p: Partition) -> str | None:
        """A person's word about the halt that is, None while there is none."""
        halt, word = self.halts.get(p), self.words.get(p)
        return word.how if halt and word and not halt.over and word.halt == halt.id else None

    def halted(self, p: Partition, reason: str) -> list[Entry]:
        """Entries that say that `p` is halted; none where that is known."""
        known = self.halts.get(p)
        if known and not known.over and known.reason == reason:
            return []
        halt = Halt(str(uuid4()), reason, datetime.now(UTC).isoformat(timespec="seconds"))
        return [(_key(_HALT, *p), _bytes(halt))]

    def over(self, p: Partition) -> list[Entry]:
        """Entries that say that it is halted no more."""
        known = self.halts.get(p)
        return [(_key(_HALT, *p), _bytes(msgspec.structs.replace(known, over=True)))] if known else []

    def go_on(self, topic_id: str, number: int, line: HaltRecord) -> list[Entry]:
        """Entries that say: the partition goes on as `line`."""
        if known := self.lines.get((topic_id, number)):
            line = msgspec.structs.replace(line, before=(*known.before, known.life))
        return [(_key(_LINE, topic_id, number), _bytes(line))]


def new_line(epoch: int, start: int) -> HaltRecord:
    """Another life, from `start` on."""
    return HaltRecord(epoch, str(uuid4()), start)


def _key(kind: str, of: str, number: int) -> str:
    return f"{kind}/{of}/{number}"
