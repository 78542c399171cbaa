"""A model of a source's table as a list of rows, and generated transactions as Debezium reports them.

It knows nothing of offsets, folds or identities: it is what the source's database would hold.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from tests.fixtures.changes import UNAVAILABLE, Stream

#: Long enough to be stored out of line; an update that leaves it alone does not tell it.
LARGE = "large" * 3


@dataclass
class Plain:
    """The table, and the changes that a connector reports; `keyed`: it has the key `id`."""

    keyed: bool
    rng: random.Random
    rows: list[dict[str, Any]] = field(default_factory=list)
    stream: Stream = field(default_factory=Stream)

    def transaction(self) -> None:
        """Some statements and a commit; one that began long ago has lower LSNs than those before it."""
        self.stream.behind = 5_000 if self.rng.random() < 0.2 else 0
        for _ in range(self.rng.randint(1, 5)):
            self._statement()
        self.stream.commit()

    def killed(self) -> None:
        """The connector was killed and sends the last changes again."""
        self.stream.again(self.rng.randint(1, min(6, len(self.stream.values) or 1)))

    def expected(self) -> list[tuple[Any, ...]]:
        return sorted(((r["id"], r["note"], r["n"]) for r in self.rows), key=repr)

    def _statement(self) -> None:
        what = self.rng.choice(["insert", "insert", "update", "update", "rekey", "delete", "truncate"])
        if what == "truncate" and self.rng.random() < 0.7:
            what = "insert"
        getattr(self, f"_{what}")()

    def _free(self) -> int:
        taken = {r["id"] for r in self.rows}
        free = [i for i in range(8) if not self.keyed or i not in taken]
        return self.rng.choice(free) if free else -1

    def _insert(self) -> None:
        if (id_ := self._free()) >= 0:
            row = {"id": id_, "note": self.rng.choice([LARGE, "small", None]), "n": self.rng.randint(0, 2)}
            self.rows.append(row)
            self.stream.insert(**row)

    def _update(self) -> None:
        if not self.rows:
            return
        row = self.rng.choice(self.rows)
        before, told = dict(row), {}
        row["n"] = self.rng.randint(0, 9)
        if self.rng.random() < 0.4:
            row["note"] = self.rng.choice([LARGE + str(self.rng.randint(0, 9)), "other", None])
        elif row["note"] and row["note"].startswith(LARGE):
            told = {"note": UNAVAILABLE}
        self.stream.update(None if self.keyed else before, **(row | told))

    def _rekey(self) -> None:
        if not self.rows or not self.keyed or (id_ := self._free()) < 0:
            return
        row = self.rng.choice(self.rows)
        old = {"id": row["id"], "note": None, "n": None}
        row["id"] = id_
        told = {"note": UNAVAILABLE} if row["note"] and row["note"].startswith(LARGE) else {}
        self.stream.rekey(old, **(row | told))

    def _delete(self) -> None:
        if self.rows:
            row = self.rows.pop(self.rng.randrange(len(self.rows)))
            self.stream.delete(**({"id": row["id"], "note": None, "n": None} if self.keyed else row))

    def _truncate(self) -> None:
        self.rows.clear()
        self.stream.truncate()
