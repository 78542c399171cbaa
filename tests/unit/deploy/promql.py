"""Names and labels in a PromQL query, compared with the metrics that the services declare."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import promql_parser as promql
from prometheus_client import CollectorRegistry

from services.cdc.agent.metrics import AgentMetrics
from services.cli.show.audit_metrics import AuditMetrics
from services.ingest.observe import metrics
from services.lake.compaction.metrics import CompactionMetrics
from services.lake.observe.metrics import LakeMetrics
from services.tracer.metrics import TracerMetrics
from services.transform.observe.metrics import TransformMetrics
from services.writer.observe.metrics import Metrics

#: Of every target, by Prometheus itself.
OF_THE_TARGET: Final = {"job", "instance"}
_SUFFIXES: Final = {
    "counter": {"_total": set()},
    "gauge": {"": set()},
    "histogram": {"_bucket": {"le"}, "_sum": set(), "_count": set()},
}


class UnknownError(AssertionError):
    """A query uses a metric or label that no service declares."""


@dataclass(frozen=True)
class Declared:
    """A series that a service shows."""

    kind: str
    labels: frozenset[str]


def declared() -> dict[str, Declared]:
    """Every series' name with its labels, as `/metrics` spells it."""
    known = {"up": Declared("gauge", frozenset(OF_THE_TARGET))}
    for registry in (
        metrics.REGISTRY,
        Metrics().registry,
        AuditMetrics().registry,
        AgentMetrics().registry,
        TracerMetrics().registry,
        TransformMetrics().registry,
        LakeMetrics().registry,
        CompactionMetrics().registry,
    ):
        known |= _of(registry)
    return known


def _of(registry: CollectorRegistry) -> dict[str, Declared]:
    found = {}
    for metric in registry._collector_to_names:
        known = vars(metric)
        kind = type(metric).__name__.lower()
        for suffix, more in _SUFFIXES[kind].items():
            labels = frozenset({*known["_labelnames"], *more, *OF_THE_TARGET})
            found[known["_name"] + suffix] = Declared(kind, labels)
    return found


def labels_of(query: Any, known: Mapping[str, Declared]) -> frozenset[str] | None:
    """Return the labels of a query's answer, None for a scalar; raise `UnknownError` for undeclared names."""
    tree = promql.parse(query) if isinstance(query, str) else query
    match tree:
        case promql.VectorSelector():
            return _selected(tree, known)
        case promql.MatrixSelector():
            return _selected(tree.vector_selector, known, is_range=True)
        case promql.AggregateExpr() | promql.BinaryExpr() | promql.Call():
            return _OPERATIONS[type(tree)](tree, known)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return labels_of(tree.expr, known)
    return None  # a number or a text


def _selected(selector: Any, known: Mapping[str, Declared], *, is_range: bool = False) -> frozenset[str]:
    if selector.name not in known:
        raise UnknownError(f"no service declares {selector.name}")
    series = known[selector.name]
    if unknown := {m.name for m in selector.matchers.matchers} - series.labels:
        raise UnknownError(f"{selector.name} has no label {unknown}")
    if is_range != (series.kind in {"counter", "histogram"}):
        raise UnknownError(
            f"{selector.name} is a {series.kind}: a counter is asked for its rate, a gauge is not"
        )
    return series.labels


def _aggregated(tree: Any, known: Mapping[str, Declared]) -> frozenset[str]:
    inner = labels_of(tree.expr, known) or frozenset()
    named = frozenset(tree.modifier.labels) if tree.modifier else frozenset()
    if not named <= inner:
        raise UnknownError(f"{tree.expr} has no label {set(named - inner)}")
    without = tree.modifier and tree.modifier.type == promql.AggModifierType.Without
    return inner - named if without else named


def _called(tree: Any, known: Mapping[str, Declared]) -> frozenset[str] | None:
    inner = [labels for each in tree.args if (labels := labels_of(each, known)) is not None]
    if tree.func.name == "vector":
        return frozenset()
    if not inner:
        return None
    return inner[0] - {"le"} if tree.func.name == "histogram_quantile" else inner[0]


def _combined(tree: Any, known: Mapping[str, Declared]) -> frozenset[str] | None:
    left, right = labels_of(tree.lhs, known), labels_of(tree.rhs, known)
    if left is None or right is None:
        return right if left is None else left
    matching = tree.modifier.matching if tree.modifier else None
    if matching is not None and not set(matching.labels) <= left & right:
        raise UnknownError(f"not both sides have {matching.labels}: {tree}")
    if matching is None and left != right and str(tree.op) != "or":
        raise UnknownError(f"the sides have other labels, {set(left)} and {set(right)}: {tree}")
    return left & right if str(tree.op) == "or" else left


_OPERATIONS: Final = {
    promql.AggregateExpr: _aggregated,
    promql.BinaryExpr: _combined,
    promql.Call: _called,
}
