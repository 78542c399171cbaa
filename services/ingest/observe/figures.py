"""The gateway's `/figures`: current counts of all workers, which `onramp top` and the admin service read.

With several workers each writes its counts into a file of the folder that they share for metrics, twice a
second, and any worker answers for all.  The files of ended workers remain, as their metrics do.
"""

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from services.ingest.observe.metrics import EVENTS_TALLY, REQUEST_SECONDS_TALLY
from shared import wire
from shared.figures import GatewayFigures, Spread, summed

#: The folder of all workers; a single worker has none.
_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
#: Identifies this process among all workers, also those that had its pid before.
_PROCESS: Final = f"{os.getpid()}-{secrets.token_hex(4)}"
_STARTED: Final = time.monotonic()


class _Worker(msgspec.Struct, frozen=True):
    """One worker's counts; `started`: monotonic seconds, which all workers of a machine share."""

    started: float
    events: list[tuple[str, str, int]]
    request_seconds: Spread


#: The content of the last file that this process wrote.
_published: bytes = b""


def publish() -> None:
    """Write this worker's counts for the others, if there are others and the counts changed."""
    global _published  # noqa: PLW0603 - one file of this process
    if (folder := os.environ.get(_FOLDER)) is None:
        return
    content = msgspec.json.encode(_own())
    if content != _published:
        file = Path(folder) / f"figures-{_PROCESS}.json"
        file.with_suffix(".new").write_bytes(content)
        file.with_suffix(".new").replace(file)
        _published = content


def document() -> bytes:
    """Return the counts of all workers as JSON."""
    workers = [_own(), *_others()]
    started = min(worker.started for worker in workers)
    spread = Spread()
    for worker in workers:
        spread += worker.request_seconds
    figures = GatewayFigures(
        instance=os.environ.get(_FOLDER, _PROCESS),
        uptime_seconds=time.monotonic() - started,
        events=summed(((name, outcome), n) for worker in workers for name, outcome, n in worker.events),
        request_seconds=spread,
    )
    return msgspec.json.encode(figures)


def _own() -> _Worker:
    totals = EVENTS_TALLY.totals().items()
    # The writer counts no tracers either: they would be accepted events that never land.
    events = summed(((name, outcome), n) for (name, _, outcome), n in totals if name != wire.PROBE_EVENT)
    return _Worker(_STARTED, events, REQUEST_SECONDS_TALLY.totals())


def _others() -> Iterator[_Worker]:
    folder = os.environ.get(_FOLDER)
    for file in sorted(Path(folder).glob("figures-*.json")) if folder else ():
        if file.stem != f"figures-{_PROCESS}":
            yield msgspec.json.decode(file.read_bytes(), type=_Worker)
