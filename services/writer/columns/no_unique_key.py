"""Tables without a key: their rows land, and nothing can tell a producer's repeat from an event."""

import logging
from typing import Final

from services.writer.model.targets import Target
from services.writer.postgres.database import Database

log = logging.getLogger(__name__)

_reported: Final[set[tuple[str, Target]]] = set()


def warn_once(database: Database, target: Target) -> None:
    """Say once a process, by name, that repeats land twice in this table."""
    if (database.dsn, target) not in _reported:
        _reported.add((database.dsn, target))
        log.warning(
            "the table has no key: a producer's repeat of an event lands twice",
            extra={"database": database.name, "table": str(target)},
        )
