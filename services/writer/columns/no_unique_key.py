"""Warns of tables without a key that identifies repeats of an event, so that repeats land twice."""

import logging
from typing import Final

from services.writer.model.targets import Target
from services.writer.postgres.database import Database

log = logging.getLogger(__name__)

_reported: Final[set[tuple[str, Target]]] = set()


def warn_once(database: Database, target: Target) -> None:
    """Log a warning about `target`, once per process and table."""
    if (database.dsn, target) not in _reported:
        _reported.add((database.dsn, target))
        log.warning(
            "the table has no key that identifies repeats of an event: repeats land twice",
            extra={"database": database.name, "table": str(target)},
        )
