"""The lake: its tables with rows, files, lag and last compaction."""

from bisect import bisect_right
from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import Response

from services.admin.figures.lake_watch import LATE_SECONDS, POLL_SECONDS
from services.admin.ui.lake_tables import visible_lake
from services.admin.ui.routes import Ui
from services.admin.ui.view import Down, View

_PAGE: Final = 50


def add(ui: Ui) -> None:
    """Add the route."""

    @ui.get("/lake")
    def show_lake(view: View, cursor: Annotated[str, Query(max_length=512)] = "") -> Response:
        reading = visible_lake(view)
        first = bisect_right(reading.tables, cursor, key=lambda row: row.table)
        shown = reading.tables[first : first + _PAGE]
        view.down += [Down(part.name, part.reason, part.since) for part in reading.down()]
        return view.page(
            "lake.html",
            title="Lake",
            nav="lake",
            cli="onramp lake tables",
            poll=round(POLL_SECONDS),
            late=LATE_SECONDS,
            reading=reading,
            bad=reading.bad[:_PAGE],
            tables=shown,
            cursor=shown[-1].table if len(reading.tables) > first + _PAGE else None,
            filters={"cursor": cursor or None},
        )
