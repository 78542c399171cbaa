"""The rules of deploy/prometheus, and the metrics that the services declare."""

from itertools import chain
from typing import Any

import yaml

from tests.unit.conventions.tree import ROOT
from tests.unit.deploy.promql import Declared, declared, labels_of

RULES = ROOT / "deploy/prometheus/rules"
#: Symptoms first, as the runbooks have them.
FILES = {
    path.name: yaml.safe_load(path.read_text("utf-8")) for path in sorted(RULES.glob("*.yml"), reverse=True)
}
TESTS = {
    path.name: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((RULES.parent / "tests").glob("*.yml"))
}
ALL: list[dict[str, Any]] = list(
    chain.from_iterable(group["rules"] for file in FILES.values() for group in file["groups"])
)
ALERTS = {rule["alert"]: rule for rule in ALL if "alert" in rule}
RECORDED = {rule["record"]: rule["expr"] for rule in ALL if "record" in rule}


def known() -> dict[str, Declared]:
    series = declared()
    for name, query in RECORDED.items():
        series[name] = Declared("gauge", labels_of(query, series) or frozenset())
    return series


KNOWN = known()
