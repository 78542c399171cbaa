"""The tracers, the lake and the statement of yesterday, as the Overview shows them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from services.admin.figures.lake_watch import LakeReading
from services.admin.figures.status_sentence import Clause
from services.admin.figures.tracers_watch import TracersReading
from services.admin.statements.day_statements import DayStatement, DayStatements
from services.admin.ui.lake_tables import visible_lake
from services.admin.ui.view import PageView

_STATEMENT: Final = "GET /v1/statement"


def clauses(view: PageView) -> Iterator[Clause]:
    """Yield a sentence for tracers, tables of the lake and a statement that need an operator."""
    reading: TracersReading = view.state.tracers.reading
    if bad := len(reading.bad):
        noun = "path of tracers needs" if bad == 1 else "paths of tracers need"
        yield Clause("err", f"{bad:,} {noun} an operator.", reading.sentence, "/tracers")
    yield from _lake(visible_lake(view))
    yesterday = of_yesterday(view)
    if yesterday and not yesterday.statement.adds_up:
        yield Clause("err", "The statement of yesterday does not add up.", yesterday.sentence, "/statement")


def _lake(reading: LakeReading) -> Iterator[Clause]:
    if halted := [row for row in reading.tables if row.halted]:
        noun = "table of the lake takes" if len(halted) == 1 else "tables of the lake take"
        yield Clause("err", f"{len(halted):,} {noun} no events.", halted[0].halted, "/lake")
    elif reading.late:
        minutes = max(row.behind_seconds or 0 for row in reading.late) / 60
        yield Clause("wait", f"The lake is {minutes:,.0f} minutes behind.", "Events wait on Kafka.", "/lake")
    if failed := [row for row in reading.tables if row.error]:
        noun = "table of the lake is" if len(failed) == 1 else "tables of the lake are"
        yield Clause("wait", f"{len(failed):,} {noun} not maintained.", failed[0].error, "/lake")


def of_yesterday(view: PageView) -> DayStatement | None:
    """Return the statement of yesterday, or None if there is none or the caller may not see it."""
    days: DayStatements = view.state.day_statements
    found = days.yesterday
    if not view.may(_STATEMENT) or found is None or not found.is_known:
        return None
    return found if found.day == view.now.date() - timedelta(days=1) else None
