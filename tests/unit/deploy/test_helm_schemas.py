"""kubeconform on the chart's manifests, with vendored schemas: each kind, and a planted mistake in each."""

import copy
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.unit.deploy.helm_chart import VARIANTS, Manifest, manifests
from tests.unit.deploy.kubernetes_schemas import KINDS, validator, write_schemas

KUBECONFORM = shutil.which("kubeconform")
needs_kubeconform = pytest.mark.skipif(KUBECONFORM is None, reason="kubeconform is not on the PATH")


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_schemas(tmp_path_factory.mktemp("schemas"))


def kubeconform(location: str, documents: list[Manifest]) -> tuple[int, str]:
    """Return the exit code and the output of kubeconform, which fetches no schema."""
    command = [str(KUBECONFORM), "-strict", "-summary", "-schema-location", location]
    text = yaml.safe_dump_all(documents)
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout + answer.stderr


@needs_kubeconform
@pytest.mark.parametrize("variant", VARIANTS)
def test_kubeconform_accepts_every_manifest(variant: str, location: str) -> None:
    documents = manifests(variant)
    code, output = kubeconform(location, documents)
    assert (code, f"Valid: {len(documents)}, Invalid: 0, Errors: 0, Skipped: 0" in output) == (0, True), (
        output
    )


def _set(kind: str, *path: str | int, value: Any) -> Callable[[list[Manifest]], Manifest]:
    """Return a function that changes the first manifest of a kind and returns it."""

    def change(documents: list[Manifest]) -> Manifest:
        document = next(each for each in documents if each["kind"] == kind)
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return document

    return change


_FIRST = ("spec", "template", "spec", "containers", 0)
MISTAKES = {
    "an unknown field": _set("Deployment", "spec", "replica", value=2),
    "a text for a number": _set("Deployment", "spec", "replicas", value="two"),
    "an unknown version": _set("Deployment", "apiVersion", value="apps/v2"),
    "an unknown kind": _set("Deployment", "kind", value="Deploymnt"),
    "a field of a container": _set("StatefulSet", *_FIRST, "imagePullPolice", value="Always"),
    "a port that is a text": _set("StatefulSet", *_FIRST, "ports", 0, "containerPort", value="http"),
    "no selector": _set("Deployment", "spec", value={"template": {}}),
    "no maximum": _set(
        "HorizontalPodAutoscaler", "spec", value={"scaleTargetRef": {"kind": "a", "name": "b"}}
    ),
    "a peer that is a text": _set("NetworkPolicy", "spec", "ingress", value=["gateway"]),
    "a field of a budget": _set("PodDisruptionBudget", "spec", "minAvailible", value=1),
    "a port without a number": _set("Service", "spec", "ports", value=[{"name": "http"}]),
    "a field of a monitor": _set("ServiceMonitor", "spec", "endpoint", value=[]),
    "an interval that is none": _set("ServiceMonitor", "spec", "endpoints", 0, "interval", value="often"),
    "a rule without a query": _set("PrometheusRule", "spec", "groups", 0, "rules", value=[{"alert": "A"}]),
}


def _planted(mistake: str) -> Manifest:
    return MISTAKES[mistake](copy.deepcopy(manifests("everything")))


def test_every_kind_of_the_chart_has_a_planted_mistake() -> None:
    original = {each["kind"] for each in manifests("everything")}
    assert original <= {_planted(mistake)["kind"] for mistake in MISTAKES}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_schema_finds_a_planted_mistake(mistake: str) -> None:
    document = _planted(mistake)
    kind = f"{document['apiVersion']}/{document['kind']}"
    assert kind not in KINDS or not validator(kind).is_valid(document)


@needs_kubeconform
@pytest.mark.parametrize("mistake", MISTAKES)
def test_kubeconform_finds_a_planted_mistake(mistake: str, location: str) -> None:
    code, output = kubeconform(location, [_planted(mistake)])
    assert (code, "Valid: 0," in output) == (1, True), output
