"""The tables of the lake that a caller sees: those of the event types that the caller sees."""

from dataclasses import replace

from services.admin.figures.lake_watch import LakeReading
from services.admin.ui.view import PageView
from shared.registry import Snapshot


def visible_lake(view: PageView) -> LakeReading:
    """Return the last reading with the tables of the event types that the caller sees."""
    reading: LakeReading = view.state.lake.reading
    if view.caller.only is None:
        return reading
    registry: Snapshot = view.state.registry()
    types = registry.lake_tables(is_all=True)
    visible = (row for row in reading.tables if view.caller.sees(types.get(row.table, row.table)))
    return replace(reading, tables=tuple(visible))
