"""The schema checks of one request: cheap ones at once, others in parts, between which other requests run.

The validator holds the interpreter's lock for a whole event, up to a second for the costliest schema
(shared/contracts/schema_cost.py). A batch may have thousands of such events, so a request has a limit too.
"""

import time
from collections import deque
from typing import Final

from services.ingest.request import BatchItem
from shared.contracts.type_schemas import ReportedFaults, Schemas
from shared.errors import BATCH_TOO_COSTLY, InfrastructureError, OnrampError
from shared.path_steps import Step

#: Maximum cost of a part, in the unit of `schema_cost`: 5 to 20 ms. A costlier event is a part of its own.
MAX_PER_PART: Final = 1_000_000
#: Minimum seconds of processor time of a turn with further parts: a turn takes about 50 µs, and most events
#: cost far less than the maximum for their size.
MIN_SECONDS: Final = 0.001
#: Seconds of processor time after which a request's remaining parts are refused: 10 MB of events with a usual
#: schema take 0.05 to 0.3 s, measured.
MAX_SECONDS: Final = 2.0


class SchemaChecks:
    """Checks the payloads of one request's events by the schemas of their types."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._reported = ReportedFaults()
        self._parts: deque[list[tuple[BatchItem, str]]] = deque()
        #: The cost of the part that `add` extends; at first of the checks at once.
        self._cost = 0
        self._seconds = 0.0

    @property
    def has_parts(self) -> bool:
        """Return whether `run_parts` has work."""
        return bool(self._parts)

    def add(self, item: BatchItem, name: str) -> None:
        """Check the payload now, if it and those before it are cheap; else leave it to `run_parts`.

        Raises:
            OnrampError: as `Schemas.check`.
        """
        cost = self._schemas.estimate(name, len(item.value))
        fits = self._cost + cost <= MAX_PER_PART
        if fits and not self._parts:
            self._check(item, name)
        elif fits:
            self._parts[-1].append((item, name))
        else:
            self._parts.append([(item, name)])
            self._cost = 0
        self._cost += cost

    def run_parts(self) -> None:
        """Check the next parts, at least one, for `MIN_SECONDS`, and set the verdict of each invalid event.

        Refuse all remaining parts, with an error that asks for a retry, if those before took too long.
        """
        if self._seconds >= MAX_SECONDS:
            self._refuse_rest()
            return
        began, seconds = time.thread_time(), 0.0
        while self._parts and seconds < MIN_SECONDS:
            for item, name in self._parts.popleft():
                try:
                    self._check(item, name)
                except OnrampError as error:
                    item.verdict = error.at(Step.CHECK).without_frames()
            seconds = time.thread_time() - began
        self._seconds += seconds

    def _check(self, item: BatchItem, name: str) -> None:
        self._schemas.check(name, item.document, len(item.value), self._reported)

    def _refuse_rest(self) -> None:
        detail = f"checking the events before this one took more than {MAX_SECONDS:g} s"
        for part in self._parts:
            for item, _ in part:
                item.verdict = InfrastructureError(BATCH_TOO_COSTLY, detail)
        self._parts.clear()
