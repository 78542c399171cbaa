"""The lake: its tables with rows, files, lag and last compaction."""

from fastapi.responses import Response

from services.admin.figures.lake_watch import LATE_SECONDS, POLL_SECONDS
from services.admin.ui.lake_tables import visible_lake
from services.admin.ui.routes import Ui
from services.admin.ui.view import Down, View


def add(ui: Ui) -> None:
    """Add the route."""

    @ui.get("/lake")
    def show_lake(view: View) -> Response:
        reading = visible_lake(view)
        view.down += [Down(part.name, part.reason, part.since) for part in reading.down()]
        return view.page(
            "lake.html",
            title="Lake",
            nav="lake",
            cli="onramp lake tables",
            poll=round(POLL_SECONDS),
            late=LATE_SECONDS,
            reading=reading,
        )
