"""Warns of tables without a unique key: a producer's repeat of an event cannot be told and lands twice."""

import logging
from typing import Final

from services.writer.model.targets import Target
from services.writer.postgres.database import Database

log = logging.getLogger(__name__)

_reported: Final[set[tuple[str, Target]]] = set()


def warn_once(database: Database, target: Target) -> None:
    """Log a warning about `target`, once for each process and table."""
    if (database.dsn, target) not in _reported:
        _reported.add((database.dsn, target))
        log.warning(
            "the table has no key: a producer's repeat of an event lands twice",
            extra={"database": database.name, "table": str(target)},
        )
