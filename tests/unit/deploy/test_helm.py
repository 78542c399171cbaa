"""The chart's manifests: valid by Kubernetes' schemas and by rules beyond them; planted mistakes fail."""

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import generate
from services.ingest.settings import IngestSettings
from tests.unit.deploy import helm_chart
from tests.unit.deploy.helm_chart import OPTIONAL, VARIANTS, Manifest, manifests
from tests.unit.deploy.kubernetes_schemas import KINDS, validator
from tests.unit.deploy.rules import FILES

WORKLOADS = {"Deployment", "StatefulSet"}
_SECRETS = {"onramp-database", "onramp-kafka", "onramp-tls", "onramp-sources", "onramp-tracer", "onramp-lake"}


def errors(documents: list[Manifest]) -> list[str]:
    return [*_schema_errors(documents), *_pod_errors(documents), *_reference_errors(documents)]


def _name(document: Manifest) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def _schema_errors(documents: list[Manifest]) -> Iterator[str]:
    for each in documents:
        kind = f"{each['apiVersion']}/{each['kind']}"
        if kind not in KINDS:
            yield f"{_name(each)}: no such kind"
            continue
        for error in validator(kind).iter_errors(each):
            yield f"{_name(each)}: {error.instance_path}: {error.message}"


def _workloads(documents: list[Manifest]) -> list[Manifest]:
    return [each for each in documents if each["kind"] in WORKLOADS]


def _pod(document: Manifest) -> dict[str, Any]:
    pod: dict[str, Any] = document["spec"]["template"]["spec"]
    return pod


def _pod_errors(documents: list[Manifest]) -> Iterator[str]:
    known = generate.variables()
    for each in _workloads(documents):
        pod = _pod(each)
        if pod["securityContext"].get("runAsNonRoot") is not True:
            yield f"{_name(each)} may run as root"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{_name(each)} has a token of the cluster"
        if pod.get("shareProcessNamespace") is not True:
            yield f"{_name(each)} loses signals while it starts"
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for volume in volumes.values():
            if "secret" in volume and volume["secret"]["secretName"] not in _SECRETS:
                yield f"{_name(each)} mounts a secret that no value names"
        volumes |= {
            claim["metadata"]["name"]: claim for claim in each["spec"].get("volumeClaimTemplates", [])
        }
        for container in pod["containers"]:
            yield from (f"{_name(each)} {error}" for error in _container_errors(container, volumes, known))


def _container_errors(container: dict[str, Any], volumes: dict[str, Any], known: set[str]) -> Iterator[str]:
    context = container["securityContext"]
    if context.get("readOnlyRootFilesystem") is not True:
        yield "writes to its root"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield "keeps capabilities"
    if "memory" not in container["resources"].get("limits", {}):
        yield "has no limit of memory"
    if not re.fullmatch(
        r"registry\.example/onramp-(ingest|writer|admin|connect):0\.1\.0", container["image"]
    ):
        yield f"runs {container['image']}"
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    if "tmp" not in mounted or set(mounted) - volumes.keys():
        yield "mounts volumes that do not exist, or no /tmp"
    ports = {port["name"] for port in container.get("ports", [])}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        port = container.get(probe, {}).get("httpGet", {}).get("port", "")
        if port and port not in ports:
            yield f"is probed at {port}, which is no port"
    if "/readyz" in str(container.get("livenessProbe")):
        yield "is restarted while it waits"
    names = [variable["name"] for variable in container["env"]]
    yield from (f"sets {name}, which is no setting" for name in names if name not in known)
    yield from (f"sets {name} twice" for name in {name for name in names if names.count(name) > 1})


def _reference_errors(documents: list[Manifest]) -> Iterator[str]:
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in _workloads(documents)]

    def selected(selector: dict[str, str]) -> int:
        return sum(selector.items() <= labels.items() for labels in pods)

    names = {(each["kind"], each["metadata"]["name"]) for each in documents}
    if len(names) < len(documents):
        yield "two manifests have one name"
    for each in documents:
        spec = each["spec"]
        if each["kind"] == "Service":
            if selected(spec["selector"]) != 1:
                yield f"{_name(each)} selects no pod"
            yield from (f"{_name(each)} {error}" for error in _port_errors(each, documents))
        if (
            each["kind"] in {"PodDisruptionBudget", *WORKLOADS}
            and selected(spec["selector"]["matchLabels"]) != 1
        ):
            yield f"{_name(each)} selects no pod"
        if each["kind"] == "HorizontalPodAutoscaler":
            target = spec["scaleTargetRef"]
            if (target["kind"], target["name"]) not in names:
                yield f"{_name(each)} scales nothing"
    protected = {each["metadata"]["name"] for each in documents if each["kind"] == "NetworkPolicy"}
    open_ = {each["metadata"]["name"] for each in _workloads(documents)} - protected
    yield from (f"{name} has no network policy" for name in sorted(open_))


def _port_errors(service: Manifest, documents: list[Manifest]) -> Iterator[str]:
    [workload] = [w for w in _workloads(documents) if w["metadata"]["name"] == service["metadata"]["name"]]
    ports = {
        port["name"]: port["containerPort"]
        for container in _pod(workload)["containers"]
        for port in container.get("ports", [])
    }
    for port in service["spec"]["ports"]:
        if ports.get(port["targetPort"]) != port["port"]:
            yield f"sends {port['name']} to no port"


def _of(documents: list[Manifest], kind: str, name: str) -> Manifest:
    [found] = [each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def _environment(documents: list[Manifest], name: str) -> dict[str, str]:
    [container] = _pod(_of(documents, "Deployment", name))["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_manifests_are_those_of_the_chart(variant: str) -> None:
    hint = "run `python -m tests.unit.deploy.helm_chart`"
    assert helm_chart.stored_checksum(variant) == helm_chart.checksum(), hint


@pytest.mark.skipif(not helm_chart.helm(), reason="helm is not on the PATH")
@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_renders_the_stored_manifests(variant: str) -> None:
    program = str(helm_chart.helm())
    assert "0 chart(s) failed" in helm_chart.lint(program)
    assert helm_chart.render(program, variant) == helm_chart.stored(variant).partition("\n")[2]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_manifests_are_valid(variant: str) -> None:
    assert errors(manifests(variant)) == []


def test_optional_components_are_off_by_default() -> None:
    names = {each["metadata"]["name"] for each in _workloads(manifests("default"))}
    assert names == {"onramp-gateway", "onramp-writer", "onramp-admin"}
    every = {each["metadata"]["name"] for each in _workloads(manifests("everything"))}
    assert every - names == {f"onramp-{each}" for each in OPTIONAL}


def test_components_that_read_or_write_the_lake_have_its_storage() -> None:
    documents = manifests("everything")
    for kind, name in [
        *(("Deployment", f"onramp-{each}") for each in ("lake", "compaction", "admin")),
        ("StatefulSet", "onramp-tracer"),
    ]:
        [container] = _pod(_of(documents, kind, name))["containers"]
        values = {each["name"]: each.get("value") for each in container["env"]}
        assert values["ONRAMP_LAKE_URL"] == "s3://company-events/lake"
        assert values["ONRAMP_LAKE_ENDPOINT"] == "https://s3.example"
        folder = Path(values["ONRAMP_LAKE_CREDENTIALS_FILE"] or "").parent
        assert str(folder) in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_tracers_go_through_the_transform_service() -> None:
    documents = manifests("everything")
    [container] = _pod(_of(documents, "StatefulSet", "onramp-tracer"))["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert values["ONRAMP_TRACER_TRANSFORM_URLS"] == "http://onramp-transform:8086"
    assert _environment(documents, "onramp-transform")["ONRAMP_TRANSFORM_TRACERS"] == "true"
    policy = _of(documents, "NetworkPolicy", "onramp-transform")
    assert "tracer" in str(policy["spec"]["ingress"])


def _change(kind: str, name: str, *path: str | int, value: Any) -> Callable[[list[Manifest]], None]:
    def change(documents: list[Manifest]) -> None:
        place: Any = _of(documents, kind, name)
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


_SPEC = ("spec", "template", "spec")
_FIRST = (*_SPEC, "containers", 0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_change("Deployment", "onramp-writer", "spec", "replica", value=2), "'replica' was unexpected"),
        (_change("Deployment", "onramp-writer", "spec", "replicas", value="two"), "replicas"),
        (_change("Deployment", "onramp-writer", "apiVersion", value="apps/v2"), "no such kind"),
        (_change("Deployment", "onramp-gateway", *_SPEC, "securityContext", value={}), "may run as root"),
        (
            _change("Deployment", "onramp-admin", *_SPEC, "automountServiceAccountToken", value=True),
            "a token",
        ),
        (
            _change("Deployment", "onramp-admin", *_SPEC, "shareProcessNamespace", value=False),
            "loses signals",
        ),
        (_change("Deployment", "onramp-admin", *_FIRST, "securityContext", value={}), "writes to its root"),
        (_change("Deployment", "onramp-merger", *_FIRST, "resources", value={}), "has no limit of memory"),
        (
            _change("Deployment", "onramp-writer", *_FIRST, "image", value="onramp-writer"),
            "runs onramp-writer",
        ),
        (_change("Deployment", "onramp-writer", *_FIRST, "volumeMounts", value=[]), "no /tmp"),
        (
            _change(
                "Deployment", "onramp-writer", *_FIRST, "livenessProbe", "httpGet", "path", value="/readyz"
            ),
            "is restarted while it waits",
        ),
        (
            _change("Deployment", "onramp-writer", *_FIRST, "readinessProbe", "httpGet", "port", value="web"),
            "is probed at web",
        ),
        (
            _change("Deployment", "onramp-writer", *_FIRST, "env", 0, "name", value="ONRAMP_X"),
            "is no setting",
        ),
        (_change("Service", "onramp-admin", "spec", "selector", value={"a": "b"}), "selects no pod"),
        (_change("Service", "onramp-admin", "spec", "ports", 0, "port", value=80), "sends http to no port"),
        (
            _change("HorizontalPodAutoscaler", "onramp-gateway", "spec", "scaleTargetRef", "name", value="x"),
            "scales nothing",
        ),
        (_change("NetworkPolicy", "onramp-writer", "metadata", "name", value="x"), "has no network policy"),
        (
            _change(
                "PodDisruptionBudget", "onramp-writer", "spec", "selector", "matchLabels", value={"a": "b"}
            ),
            "PodDisruptionBudget onramp-writer selects no pod",
        ),
    ],
)
def test_a_planted_mistake_is_noticed(change: Callable[[list[Manifest]], None], error: str) -> None:
    documents = copy.deepcopy(manifests("everything"))
    change(documents)
    assert error in "\n".join(errors(documents))


def test_a_gateway_ends_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    for variant in VARIANTS:
        for name, value in _environment(manifests(variant), "onramp-gateway").items():
            monkeypatch.setenv(name, value)
        settings = IngestSettings()
        pod = _pod(_of(manifests(variant), "Deployment", "onramp-gateway"))
        pause = float(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1])
        assert pod["terminationGracePeriodSeconds"] > pause + settings.grace_seconds
        assert settings.drain_seconds == pause


def test_only_the_agents_pod_reaches_kafka_connect() -> None:
    [connect, agent] = _pod(_of(manifests("everything"), "Deployment", "onramp-capture"))["containers"]
    assert "ports" not in connect
    assert "ONRAMP_CONNECT_HOST" not in [each["name"] for each in connect["env"]]  # loopback
    variables = {each["name"]: each.get("value") for each in agent["env"]}
    assert variables["ONRAMP_AGENT_CONNECT_URL"] == "http://127.0.0.1:8083"


def test_the_rules_and_job_names_are_those_of_prometheus() -> None:
    documents = manifests("everything")
    groups = _of(documents, "PrometheusRule", "onramp-rules")["spec"]["groups"]
    assert sorted(groups, key=str) == sorted((g for file in FILES.values() for g in file["groups"]), key=str)
    jobs = {
        each["spec"]["endpoints"][0]["relabelings"][0]["replacement"]
        for each in documents
        if each["kind"] == "ServiceMonitor"
    }
    used = set(re.findall(r'job="(onramp-\w+)"', str(groups)))
    assert used
    assert used <= jobs
