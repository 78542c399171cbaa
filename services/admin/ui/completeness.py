"""The tracers and the statement of yesterday, as the Overview shows them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from services.admin.figures.status_sentence import Clause
from services.admin.figures.tracers_watch import TracersReading
from services.admin.statements.days import DayStatement, DayStatements
from services.admin.ui.view import PageView

_STATEMENT: Final = "GET /v1/statement"


def clauses(view: PageView) -> Iterator[Clause]:
    """Yield a sentence for tracers and for a statement that need a person."""
    reading: TracersReading = view.state.tracers.reading
    if bad := len(reading.bad):
        noun = "path of tracers needs" if bad == 1 else "paths of tracers need"
        yield Clause("err", f"{bad:,} {noun} a person.", reading.sentence, "/tracers")
    yesterday = of_yesterday(view)
    if yesterday and not yesterday.statement.adds_up:
        yield Clause("err", "The statement of yesterday does not add up.", yesterday.sentence, "/statement")


def of_yesterday(view: PageView) -> DayStatement | None:
    """Return the statement of yesterday, or None if there is none or the caller may not see it."""
    days: DayStatements = view.state.day_statements
    found = days.yesterday
    if not view.may(_STATEMENT) or found is None or not found.is_known:
        return None
    return found if found.day == view.now.date() - timedelta(days=1) else None
