"""Halted partitions, the operator's decision about each, and the generation in which one resumes.

When an operator accepts the loss of a log's events, the partition resumes as another topic generation:
with an id of its own, from a recorded offset.  Ledgers, totals, plans and markers of the earlier
generation stay as they are; nothing is ever set back (docs/adr, logs that go back; the model's rules
`another_life` and `life_kept`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import msgspec

from shared.kafka_read.offsets import Partition
from shared.parse_errors import UNREADABLE

GenerationKey = tuple[str, int]
"""A topic generation's id (the topic's UUID, or its own) and the partition's number, as in the keys."""
Entry = tuple[str, bytes]
"""Key and value of a record of `onramp.settled`."""

#: Resume with the records that Kafka has.
ACCEPT: Final = "accept"

# The first parts of the keys on `onramp.settled`: a format that other releases have written too.
_HALT: Final = "halt"
DECISION: Final = "word"
_ACCEPTED: Final = "line"


class Halt(msgspec.Struct, frozen=True):
    """A halt that an operator may resolve.  Another halt of the same partition has another `id`."""

    id: str
    reason: str
    since: str
    over: bool = False


class OperatorDecision(msgspec.Struct, frozen=True):
    """An operator's decision about the halt with the id `halt`."""

    halt: str
    how: str
    by: str


class AcceptedGeneration(msgspec.Struct, frozen=True):
    """The generation in which a partition resumes, from offset `start`, as writer `epoch` recorded it.

    `before`: its predecessors, which the audit needs, because compaction keeps one record of a partition.
    """

    epoch: int
    generation: str = msgspec.field(name="life")
    start: int
    before: tuple[str, ...] = ()


_decode_halt: Final = msgspec.json.Decoder(Halt).decode
_decode_decision: Final = msgspec.json.Decoder(OperatorDecision).decode
_decode_accepted: Final = msgspec.json.Decoder(AcceptedGeneration).decode
_encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class PartitionHalts:
    """Halts, decisions and accepted topic generations, as stored on `onramp.settled`."""

    halts: dict[Partition, Halt] = field(default_factory=dict)
    decisions: dict[Partition, OperatorDecision] = field(default_factory=dict)
    accepted: dict[GenerationKey, AcceptedGeneration] = field(default_factory=dict)

    def apply(self, kind: str, of: Sequence[str], value: bytes) -> bool:
        """Apply an entry; return False when it is of another kind.  Raises one of `UNREADABLE`."""
        if kind == _HALT:
            self.halts[Partition(of[0], int(of[1]))] = _decode_halt(value)
        elif kind == DECISION:
            self.decisions[Partition(of[0], int(of[1]))] = _decode_decision(value)
        elif kind == _ACCEPTED:
            accepted, known = _decode_accepted(value), self.accepted.get((of[0], int(of[1])))
            if known is None or known.epoch <= accepted.epoch:  # a zombie may write later, and does not win
                self.accepted[of[0], int(of[1])] = accepted
        else:
            return False
        return True

    def apply_decision(self, of: Sequence[str], value: bytes) -> None:
        """Apply an operator's decision; skip a record that is not one."""
        with suppress(*UNREADABLE):
            self.apply(DECISION, of, value)

    def generation_id(self, topic_id: str, number: int) -> str:
        """Return the id of a partition's generation: the topic's, unless an operator accepted another."""
        accepted = self.accepted.get((topic_id, number))
        return accepted.generation if accepted else topic_id

    def start_offset(self, topic_id: str, number: int, otherwise: int) -> int:
        """Return the start offset of an accepted generation; `otherwise` for the topic's own."""
        accepted = self.accepted.get((topic_id, number))
        return accepted.start if accepted else otherwise

    def decision(self, p: Partition) -> str | None:
        """Return the operator's decision about the current halt of `p`, or None."""
        halt, decision = self.halts.get(p), self.decisions.get(p)
        return decision.how if halt and decision and not halt.over and decision.halt == halt.id else None

    def halt_entries(self, p: Partition, reason: str) -> list[Entry]:
        """Return the entries that record that `p` is halted; none if that is recorded already."""
        known = self.halts.get(p)
        if known and not known.over and known.reason == reason:
            return []
        halt = Halt(str(uuid4()), reason, datetime.now(UTC).isoformat(timespec="seconds"))
        return [(_key(_HALT, *p), _encode(halt))]

    def end_entries(self, p: Partition) -> list[Entry]:
        """Return the entries that record that `p` is no longer halted."""
        known = self.halts.get(p)
        return [(_key(_HALT, *p), _encode(msgspec.structs.replace(known, over=True)))] if known else []

    def accept_entries(self, topic_id: str, number: int, accepted: AcceptedGeneration) -> list[Entry]:
        """Return the entries that record that the partition resumes as `accepted`."""
        if known := self.accepted.get((topic_id, number)):
            accepted = msgspec.structs.replace(accepted, before=(*known.before, known.generation))
        return [(_key(_ACCEPTED, topic_id, number), _encode(accepted))]


def accepted_generation(epoch: int, start: int) -> AcceptedGeneration:
    """Return a new topic generation, with an id of its own, that starts at offset `start`."""
    return AcceptedGeneration(epoch, str(uuid4()), start)


def _key(kind: str, of: str, number: int) -> str:
    return f"{kind}/{of}/{number}"
