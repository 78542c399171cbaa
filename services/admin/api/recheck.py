"""The route of rechecks: replays that a restored dump has lost are reopened, page by page."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI

from services.admin.api.queries import RecheckRequest
from services.admin.api.rights import Asking
from services.admin.store import recheck_sql
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import record_act
from services.admin.store.recheck_sql import Lost
from shared import wire


def add_recheck(app: FastAPI, dsn: str, databases: Mapping[str, str]) -> None:
    """Add the route."""

    @app.post("/v1/recheck")
    def recheck(asked: RecheckRequest, asking: Asking) -> dict[str, Any]:
        """Reopen replayed events that their database does not know; with `dry_run` only list them.

        The page holds replayed events after the id `after`; `next` is the `after` of the next page.
        """
        actor = asking.acting(asked.actor)
        with transaction(dsn) as conn:
            found = recheck_sql.recheck_page(conn, databases, asked.after, asked.limit)
            lost = found.lost
            if lost and not asked.dry_run:
                opened = set(recheck_sql.reopen(conn, lost))
                lost = [each for each in lost if each.attempt.id in opened]
                for name, events in _by_destination(lost).items():
                    record_act(conn, actor, "recheck", f"{events} lost replays into {name}", asked.reason)
        return {
            "checked": found.checked,
            "lost": [_view(each) for each in lost],
            "staged": found.staged,
            "unreached": found.unreached,
            "next": found.next,
        }


def _by_destination(lost: list[Lost]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in lost:
        refused = wire.is_refused(each.attempt.destination)
        name = "where they belonged" if refused else each.attempt.destination
        counts[name] = counts.get(name, 0) + 1
    return counts


def _view(lost: Lost) -> dict[str, Any]:
    a = lost.attempt
    return {
        "id": a.id,
        "topic": a.topic,
        "partition": a.partition,
        "offset": a.offset,
        "destination": a.destination,
        "attempt": a.attempt,
        "gone": lost.gone,
    }
