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
    landing,
    merger,
    operators,
    reading,
    registry,
    replays,
    settling,
    shared,
    stack,
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
}
