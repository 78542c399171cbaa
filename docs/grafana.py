"""How Grafana writes a dashboard: JSON of graphs in two columns."""

from collections.abc import Sequence
from typing import Any, Final

Json = dict[str, Any]
#: A graph's title, its unit in Grafana's words, and its (query, legend) pairs.
Panel = tuple[str, str, tuple[tuple[str, str], ...]]

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 2
_WIDTH: Final = 24 // _COLUMNS
_HEIGHT: Final = 8
_SCHEMA: Final = 39


def dashboard_of(name: str, title: str, panels: Sequence[Panel]) -> Json:
    """Return a dashboard as Grafana reads it."""
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "uid": f"onramp-{name}",
        "title": title,
        "tags": ["onramp"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [source]},
        "panels": [_graph(n, each) for n, each in enumerate(panels)],
    }


def _graph(n: int, of: Panel) -> Json:
    title, unit, queries = of
    row, column = divmod(n, _COLUMNS)
    return {
        "id": n + 1,
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": row * _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [_target(chr(ord("A") + i), *each) for i, each in enumerate(queries)],
    }


def _target(reference: str, query: str, legend: str) -> Json:
    return {"refId": reference, "datasource": _SOURCE, "expr": query, "legendFormat": legend}
