"""Dashboards query declared metrics, and Grafana's types accept every key.

Validated, not run: no Grafana was available.
"""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from docs import dashboards
from tests.unit.conventions.tree import ROOT, report
from tests.unit.deploy.promql import UnknownError, labels_of
from tests.unit.deploy.rules import KNOWN

# Without them the types know nothing of a panel's queries and options.
plugins.register_default_plugins()

MADE = {name: json.loads(dashboards.text_of(name)) for name in dashboards.DASHBOARDS}
QUERIES = [
    (f"{name}, panel {panel['id']} {panel['title']!r}, query {target['refId']}", target)
    for name, made in MADE.items()
    for panel in made["panels"]
    for target in panel["targets"]
]


def test_queries_ask_for_what_is_declared_and_legends_for_labels_of_the_answer() -> None:
    assert QUERIES
    offenders = [f"{place}: {fault}" for place, target in QUERIES for fault in query_faults(target)]
    assert offenders == [], report(offenders)


def query_faults(target: dict[str, str]) -> Iterator[str]:
    try:
        labels = labels_of(target["expr"], KNOWN)
    except UnknownError as error:
        yield str(error)
        return
    named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    if labels is None:
        yield f"{target['expr']} asks for no series"
    elif named != labels:
        yield f"the legend names {sorted(named)}, the answer has {sorted(labels)}"


@pytest.mark.parametrize(
    ("query", "legend", "fault"),
    [
        ("onramp_writer_lags", "", "declares"),
        ("1", "", "no series"),
        ("sum by (topic) (onramp_writer_lag_events)", "{{tpoic}}", "legend"),
        ("sum by (topic) (onramp_writer_lag_events)", "lag", "legend"),
    ],
)
def test_a_wrong_query_or_legend_is_noticed(query: str, legend: str, fault: str) -> None:
    assert fault in "".join(query_faults({"expr": query, "legendFormat": legend}))


def test_grafana_reads_each_dashboard_as_it_is_written() -> None:
    assert {name: places for name, made in MADE.items() if (places := lost(made))} == {}


@pytest.mark.parametrize(
    "place", ["", "panels.0", "panels.0.targets.0", "panels.0.fieldConfig.defaults", "time"]
)
def test_a_misspelt_key_is_seen(place: str) -> None:
    made = copy.deepcopy(MADE["overview"])
    here: Any = made
    for step in filter(None, place.split(".")):
        here = here[int(step) if step.isdigit() else step]
    here["misspelt"] = "x"
    assert lost(made) == [f"{place}.misspelt".lstrip(".")]


def lost(made: dict[str, Any]) -> list[str]:
    """Return the places that Grafana's types do not return unchanged."""
    read = Dashboard.from_json(made)
    return sorted(differences(made, json.loads(JSONEncoder().encode(read)), ""))


def differences(ours: Any, theirs: Any, place: str) -> list[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        places = [(key, value, theirs.get(key)) for key, value in ours.items()]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        places = [(n, value, theirs[n]) for n, value in enumerate(ours)]
    else:
        return [] if ours == theirs else [place]
    return [d for key, a, b in places for d in differences(a, b, f"{place}.{key}".lstrip("."))]


def test_panels_have_a_place_and_a_title_of_their_own() -> None:
    for made in MADE.values():
        places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in made["panels"]]
        assert len(set(places)) == len(places) == len({p["title"] for p in made["panels"]})
    assert len({made["uid"] for made in MADE.values()}) == len(MADE)


def test_provisioned_files_exist_and_are_mounted() -> None:
    provisioning = ROOT / "deploy/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards/onramp.yml").read_text())["providers"]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    mounts = [v.split(":") for name in ("prometheus", "grafana") for v in compose[name]["volumes"]]
    files = {inside: outside for outside, inside, *_ in mounts if outside.startswith("./")}
    assert source["url"] == "http://prometheus:9090"
    assert files[provider["options"]["path"]] == f"./{dashboards.FOLDER}"
    assert files["/etc/grafana/provisioning"] == "./deploy/grafana/provisioning"
    assert files["/etc/prometheus/rules"] == "./deploy/prometheus/rules"
    assert all((ROOT / outside).exists() for outside in files.values())
