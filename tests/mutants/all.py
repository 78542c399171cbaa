"""The mutants of every area.

They guard what a user relies on, not every line:

- An event is acknowledged, landed, parked and replayed once, in order and as it was sent.
- A key, an operator and a database's role reach only what they may.
- The audit calls nothing reconciled that is not.
"""

from collections.abc import Mapping
from typing import Final

from tests.mutants import (
    audit,
    capture,
    client,
    error_store,
    gateway,
    lake,
    lake_maintenance,
    landing,
    merger,
    operators,
    reading,
    registry,
    replays,
    settling,
    shared,
    stack,
    statement,
    transforms,
    ui,
)
from tests.mutants.machine import Mutant

AREAS: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "gateway": gateway.MUTANTS,
    "registry": registry.MUTANTS,
    "shared": shared.MUTANTS,
    "client": client.MUTANTS,
    "reading": reading.MUTANTS,
    "settling": settling.MUTANTS,
    "landing": landing.MUTANTS,
    "replays": replays.MUTANTS,
    "error_store": error_store.MUTANTS,
    "audit": audit.MUTANTS,
    "operators": operators.MUTANTS,
    "capture": capture.MUTANTS,
    "merger": merger.MUTANTS,
    "stack": stack.MUTANTS,
    "statement": statement.MUTANTS,
    "transforms": transforms.MUTANTS,
    "lake": lake.MUTANTS,
    "lake_maintenance": lake_maintenance.MUTANTS,
    "ui": ui.MUTANTS,
}

#: Five mechanisms each of settling, gateway, error store and CDC, which `make test` alone must notice.
CORE: Final[Mapping[str, tuple[str, ...]]] = {
    "settling": (
        "the ledger in the rows' transaction: it moves after",
        "the compare: a gap",
        "the epoch's fence",
        "the plan before the first transaction",
        "queueing behind what waits",
    ),
    "gateway": (
        "waiting for the acknowledgement",
        "the producer's own bytes",
        "grants of event names",
        "comparing secrets",
        "the cap of inflation",
    ),
    "error_store": (
        "the ingester's offsets in the events' transaction",
        "that the ingester knows a repeat",
        "that a replay job stages only what its database does not know",
        "that of two jobs one changes an event",
        "that a segment is recorded by the transaction that removes its bytes from the database",
    ),
    "merger": (
        "order by the topic's offset, not by LSN",
        "identity among the changes of a merge",
        "the position in the merge's own transaction",
        "a hold of one table alone",
    ),
    "capture": ("a slot that is gone",),
}
