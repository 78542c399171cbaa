"""The answer about an event: one sentence, and its steps in their order."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from services.ops.journey.subject import Receipt


class Kind(StrEnum):
    """The kind of a step."""

    ACCEPTED = "accepted"
    FILTERED = "filtered"
    NOT_SETTLED = "not_settled"
    PARKED = "parked"
    DISCARDED = "discarded"
    RESTORED = "restored"
    REPLAYING = "replaying"
    REPLAY_FAILED = "replay_failed"
    REPLAYED = "replayed"
    WAITING = "waiting"
    LANDED = "landed"
    DUPLICATE = "duplicate"
    ABSENT = "absent"
    OUTPUT = "output"
    EMITTED = "emitted"
    DROPPED = "dropped"
    NOT_TRANSFORMED = "not_transformed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an event.  `text` is a clause without its subject; `at` is None if no part stores the time.

    `facts`: further members, without values of the payload.
    """

    kind: Kind
    text: str
    _: KW_ONLY
    receipt: Receipt | None = None
    at: datetime | None = None
    destination: str | None = None
    #: The statement that shows the row.
    sql: str | None = None
    #: The condition that ends the waiting, or the next step.
    ends: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "kind": self.kind.value,
            "text": self.text,
            "receipt": None if self.receipt is None else str(self.receipt),
            "at": None if self.at is None else self.at.isoformat(),
            "destination": self.destination,
            "sql": self.sql,
            "ends": self.ends,
            "facts": dict(self.facts),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One acceptance of an event: its steps, and its state for each destination."""

    receipt: Receipt | None
    id: str | None = None
    event_name: str | None = None
    steps: tuple[Step, ...] = ()
    #: The last step for each destination.
    outcomes: tuple[Step, ...] = ()
    #: Sentences about parts that did not answer or do not store the answer.
    unknown: tuple[str, ...] = ()
    is_known: bool = True

    def without_hidden_steps(self, sees: Callable[[str | None], bool]) -> "Passage":
        """Return the passage without steps about events of types that the caller does not see."""

        def is_visible(step: Step) -> bool:
            return all(map(sees, step.facts.get("event_names", ())))

        steps, outcomes = filter(is_visible, self.steps), filter(is_visible, self.outcomes)
        return replace(self, steps=tuple(steps), outcomes=tuple(outcomes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """All acceptances of an id, or that of a receipt."""

    subject: str
    passages: tuple[Passage, ...]
    #: Sentences: the extent of the search.
    searched: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    #: Whether the search needs the event type: more tables have the key than are searched.
    needs_type: bool = False
    #: Parts that did not answer: without them the event may be known all the same.
    unanswered: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Return whether any part knows the event."""
        return any(passage.is_known for passage in self.passages)

    @property
    def sentence(self) -> str:
        """Return the answer in one sentence."""
        if not self.is_known:
            return f"{self.subject} is not known{_because(self)}."
        known = [passage for passage in self.passages if passage.is_known]
        if len(known) == 1:
            return f"{_name(known[0], self.subject)} {_outcome(known[0])}."
        clauses = [f"at {p.receipt or 'an unknown receipt'} it {_outcome(p)}" for p in known]
        return f"{_name(known[0], self.subject)} was accepted {len(known)} times: {'; '.join(clauses)}."

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps of all acceptances."""
        return tuple(step for passage in self.passages for step in passage.steps)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return everything that is unknown, each sentence once."""
        return _once([*self.unknown, *(text for passage in self.passages for text in passage.unknown)])

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        known = [passage for passage in self.passages if passage.is_known]
        return {
            "subject": self.subject,
            "is_known": self.is_known,
            "sentence": self.sentence,
            "id": next((p.id for p in known if p.id), None),
            "event_name": next((p.event_name for p in known if p.event_name), None),
            "receipts": [str(p.receipt) for p in known if p.receipt],
            "steps": [step.as_dict() for step in self.steps],
            "unknown": list(self.doubts),
            "searched": list(self.searched),
            "needs_type": self.needs_type,
        }


#: Clauses of the sentence by the kind of the last step; others have their own text.
_CLAUSES: Final = {
    Kind.PARKED: "is parked for",
    Kind.RESTORED: "is parked for",
    Kind.REPLAY_FAILED: "is parked after a failed replay for",
    Kind.DISCARDED: "was parked and discarded for",
    Kind.REPLAYING: "is being replayed into",
    Kind.LANDED: "landed in",
}


def _outcome(passage: Passage) -> str:
    texts: list[str] = []
    destinations: dict[str, list[str]] = {}
    for step in passage.outcomes:
        if step.kind in _CLAUSES and step.destination:
            destinations.setdefault(_CLAUSES[step.kind], []).append(step.destination)
        else:
            texts.append(step.text)
    clauses = [f"{clause} {' and '.join(sorted(names))}" for clause, names in destinations.items()]
    return "; it ".join([*clauses, *texts]) or "is on Kafka, and nothing more is known"


def _name(passage: Passage, subject: str) -> str:
    named = passage.id or subject
    return f"{named} ({passage.event_name})" if passage.event_name else named


def _because(journey: Journey) -> str:
    reasons = _once([*journey.doubts, *journey.searched])
    return f": {'; '.join(text.rstrip('.') for text in reasons)}" if reasons else ""


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
