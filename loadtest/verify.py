"""Verifies by number that accepted packets are rows, and rows are accepted or unknown packets.

Three sources that know nothing of each other: the history (what was answered), the table
(what is there), and the system's own totals (the audit).
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from psycopg2.extensions import connection

from loadtest import landed_rows
from loadtest.bodies import Names
from loadtest.client_claims import IS_OK, IS_REFUSED, IS_UNKNOWN, NEVER_SENT, Claims, Ints
from loadtest.target import ROOT, Target

_EXAMPLES: Final = 10
_MAX_FINDINGS: Final = 20


@dataclass(slots=True)
class Verdict:
    """Violations, in packets; `examples` are numbers."""

    ok: int
    unknown: int
    refused: int
    landed: int = 0
    lost: int = 0
    duplicate: int = 0
    phantom: int = 0
    resurrected: int = 0
    """Packets that landed although the answer rejected them."""
    recovered: int = 0
    """Found, and the answer was unknown: allowed."""
    unsettled: int = 0
    """Records on Kafka that the ledger has not passed."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """The writer's own count of the topic."""
    miscounted: list[str] = field(default_factory=list)
    audit: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, list[int]] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether rows were found and there are no violations."""
        wrong = self.lost + self.duplicate + self.phantom + self.resurrected + self.unsettled
        balanced = bool(self.audit.get("balanced", True))
        # Where nothing is, nothing is lost either: such a run proves nothing.
        return self.landed > 0 and not wrong and not self.miscounted and balanced

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {"sound": self.sound, **asdict(self)}

    def lines(self) -> list[str]:
        """Return the result as text."""
        sent = f"{self.ok:,} ok, {self.unknown:,} unknown, {self.refused:,} refused"
        lines = [f"{sent}; {self.landed:,} found, {self.recovered:,} of them unknown"]
        wrong = ("lost", "duplicate", "phantom", "resurrected", "unsettled")
        lines += [f"{n.upper()}: {c:,}, {self.examples.get(n, '')}" for n in wrong if (c := getattr(self, n))]
        if not self.landed:
            lines.append("NOTHING WAS FOUND: the run proves nothing")
        lines += [f"MISCOUNTED: {each}" for each in self.miscounted]
        lines += [f"AUDIT: {each}" for each in self.audit.get("findings", [])]
        return lines


class Comparison:
    """Compares the claims with rows, handed over piece by piece."""

    def __init__(self, claims: Claims) -> None:
        """Start without rows."""
        self._claims = claims
        self._times = np.zeros(len(claims.states), np.uint8)
        self._strays = 0
        self._stray_examples: list[int] = []

    def take(self, numbers: Ints) -> None:
        """Add the numbers of some rows; a number outside of all leases belongs to no packet."""
        index = numbers - self._claims.base
        ours = (index >= 0) & (index < len(self._times))
        self._strays += int((~ours).sum())
        self._stray_examples += [int(n) for n in numbers[~ours][:_EXAMPLES]]
        repeated, counts = np.unique(index[ours], return_counts=True)
        self._times[repeated] = np.minimum(self._times[repeated].astype(np.int64) + counts, 255).astype(
            np.uint8
        )

    def verdict(self) -> Verdict:
        """Compare, and return how many numbers fell into each set."""
        states, times = self._claims.states, self._times
        there = times > 0
        out = Verdict(
            ok=self._claims.count(IS_OK),
            unknown=self._claims.count(IS_UNKNOWN),
            refused=self._claims.count(IS_REFUSED),
            landed=int(there.sum()),
            recovered=int((there & (states == IS_UNKNOWN)).sum()),
        )
        for name, wrong in {
            "lost": (states == IS_OK) & ~there,
            "duplicate": times > 1,
            "phantom": there & (states == NEVER_SENT),
            "resurrected": there & (states == IS_REFUSED),
        }.items():
            setattr(out, name, int(wrong.sum()))
            if wrong.any():
                out.examples[name] = [int(n) + self._claims.base for n in np.flatnonzero(wrong)[:_EXAMPLES]]
        if self._strays:
            out.phantom += self._strays
            out.examples["phantom"] = (out.examples.get("phantom", []) + self._stray_examples)[:_EXAMPLES]
        return out


def check_counts(verdict: Verdict, outcomes: dict[str, int], *, exact: bool = True) -> None:
    """Compare the writer's totals: no client sends twice, so there are no duplicates.

    `exact`: the topic is this run's alone.
    """
    verdict.outcomes = outcomes
    expected = verdict.landed + verdict.phantom
    if exact and outcomes.get("landed", 0) != expected:
        verdict.miscounted.append(
            f"the writer counts {outcomes.get('landed', 0)} landed, {expected} are there"
        )
    for outcome in ("duplicate", "parked"):
        if count := outcomes.get(outcome, 0):
            verdict.miscounted.append(f"{count} {outcome}, though every packet was valid and sent once")


def compare(conn: connection, via: str, names: Names, claims: Claims) -> Verdict:
    """Compare the history with the run's table."""
    comparison = Comparison(claims)
    landed_rows.read_rows(conn, via, names, lambda rows: comparison.take(rows["number"].astype(np.int64)))
    return comparison.verdict()


def audit(target: Target, topic: str) -> dict[str, Any]:
    """Run `onramp audit` on the run's topic and return its result; deep when it is small enough."""
    pattern = topic.replace(".", r"\.")
    answer = subprocess.run(
        [sys.executable, "-m", "services.cli", "audit", "--json", "--topics", pattern],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "ONRAMP_KAFKA_BOOTSTRAP": target.bootstrap,
            "ONRAMP_WRITER_DSN": target.dsn,
            "ONRAMP_WRITER_DATABASE": target.database,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if not answer.stdout.strip():
        return {"balanced": False, "findings": [f"the audit could not run: {answer.stderr.strip()[-500:]}"]}
    report = json.loads(answer.stdout)
    findings = [f"{f['code']} {f['topic']}/{f['partition']}: {f['detail']}" for f in report["findings"]]
    return {
        "balanced": report["balanced"] and not report["unsettled"],
        "deep": report["deep"],
        "receipts": report["receipts"],
        "findings": findings[:_MAX_FINDINGS],
        "unchecked": report["unchecked"][:_EXAMPLES],
    }
