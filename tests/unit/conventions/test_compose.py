"""docker-compose.yml: valid by the Compose specification's schema, and by rules beyond it."""

import copy
import hashlib
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from typer.testing import CliRunner

from docs import generate
from services.admin import unsafe_setups as admin
from services.admin.settings import AdminSettings
from services.cli.app import app
from services.ingest.settings import IngestSettings
from services.ingest.unsafe_setups import require_safe
from services.ops.registry import change
from shared.registry.editor import Editor
from shared.registry.file import load
from shared.registry.log import MemoryLog
from shared.registry.memory import MemoryRegistry
from shared.settings import AccessSettings, KafkaSettings
from stack.kafka_node import Node, settings_of
from tests.unit.conventions.tree import ROOT
from tests.unit.deploy import compose_file
from tests.unit.deploy.compose_file import Compose

SCHEMA = json.loads((Path(__file__).parent / "vendor/compose-spec.json").read_text("utf-8"))
COMPOSE = compose_file.load()
OURS = dict.fromkeys(("secrets", "gateway"), "deploy/ingest.Dockerfile")
OURS["writer"] = "deploy/writer.Dockerfile"
OURS |= dict.fromkeys(("apply", "admin", "tracer", "compaction"), "deploy/admin.Dockerfile")
OURS |= dict.fromkeys(("agent", "merger"), "deploy/admin.Dockerfile")
OURS |= dict.fromkeys(("transform", "lake"), "deploy/writer.Dockerfile")
OURS["connect"] = "deploy/connect.Dockerfile"


def _no_remote(reference: str) -> Any:
    raise AssertionError(f"the schema asks for {reference}: it must be complete by itself")


def schema_errors(compose: Compose) -> list[str]:
    validator = jsonschema_rs.validator_for(SCHEMA, validate_formats=True, retriever=_no_remote)
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(compose)]


def reference_errors(compose: Compose) -> list[str]:
    """Undeclared names, and health checks that nothing depends on."""
    services, errors = compose["services"], []
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            if needed not in services:
                errors.append(f"{name} depends on {needed}, which is no service")
            elif how["condition"] == "service_healthy" and "healthcheck" not in services[needed]:
                errors.append(f"{name} waits for the health of {needed}, which has no healthcheck")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if not source.startswith((".", "/", "~")) and source not in compose.get("volumes", {}):
                errors.append(f"{name} mounts {source}, which is no volume")
        errors += [
            f"{name} is on {network}, which is no network"
            for network in service.get("networks", [])
            if network not in compose.get("networks", {})
        ]
    used = {v.split(":")[0] for s in services.values() for v in s.get("volumes", [])}
    errors += [f"volume {v} is mounted by nobody" for v in compose.get("volumes", {}) if v not in used]
    return errors


def rule_errors(compose: Compose) -> list[str]:
    """Our own rules: loopback only, pinned images, known settings, files that exist."""
    errors = []
    known = generate.variables()
    for name, service in compose["services"].items():
        errors += [
            f"{name} publishes {port} beyond loopback"
            for port in service.get("ports", [])
            if not str(port).startswith("127.0.0.1:")
        ]
        if "build" in service:
            dockerfile = service["build"]["dockerfile"]
            if OURS.get(name) != dockerfile or not (ROOT / dockerfile).is_file():
                errors.append(f"{name} is built by {dockerfile}")
        elif ":" not in service["image"] or service["image"].endswith(":latest"):
            errors.append(f"{name}'s image {service['image']} is not pinned")
        errors += [
            f"{name} sets {variable}, which is no setting"
            for variable in service.get("environment", {})
            if variable.startswith("ONRAMP_") and variable not in known
        ]
        errors += [f"{name} has no {key}" for key in ("healthcheck", "restart") if key not in service]
    return errors


def all_errors(compose: Compose) -> list[str]:
    return schema_errors(compose) + reference_errors(compose) + rule_errors(compose)


def test_the_file_is_valid() -> None:
    assert all_errors(COMPOSE) == []


def _set(*path: str) -> Callable[[Compose, Any], None]:
    def change(compose: Compose, value: Any) -> None:
        place: Any = compose
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "value", "said"),
    [
        (_set("services", "gateway", "port"), ["8080"], "port"),
        (_set("services", "gateway", "restart"), 7, "restart"),
        (_set("services", "gateway", "depends_on"), {"kafka": {"condition": "ready"}}, "condition"),
        (_set("services", "gateway", "depends_on"), {"kafka2": {"condition": "service_healthy"}}, "kafka2"),
        (_set("services", "kafka", "healthcheck", "intervall"), "1s", "intervall"),
        (_set("services", "kafka", "volumes"), ["kafkadata:/data"], "kafkadata"),
        (_set("volumes", "forgotten"), None, "forgotten"),
        (_set("services", "writer", "networks"), ["inner"], "inner"),
        (_set("services", "writer", "ports"), ["8081:8081"], "beyond loopback"),
        (_set("services", "writer", "environment", "ONRAMP_WRITER_DSM"), "x", "ONRAMP_WRITER_DSM"),
        (_set("services", "writer", "build", "dockerfile"), "deploy/w.Dockerfile", "deploy/w.Dockerfile"),
        (_set("services", "kafka", "image"), "apache/kafka", "not pinned"),
        (_set("services", "kafka", "image"), "apache/kafka:latest", "not pinned"),
    ],
)
def test_a_planted_mistake_is_seen(change: Callable[[Compose, Any], None], value: Any, said: str) -> None:
    compose = copy.deepcopy(COMPOSE)
    change(compose, value)
    assert said in "\n".join(all_errors(compose))


def test_a_health_that_is_waited_for_is_checked() -> None:
    compose = copy.deepcopy(COMPOSE)
    del compose["services"]["kafka"]["healthcheck"]
    assert any("no healthcheck" in error for error in reference_errors(compose))


def test_the_gateway_needs_kafka_alone() -> None:
    assert set(COMPOSE["services"]["gateway"]["depends_on"]) == {"kafka", "apply"}  # the latter ends
    assert set(COMPOSE["services"]["apply"]["depends_on"]) == {"kafka", "secrets"}


def test_all_services_take_the_registry_from_where_apply_puts_it() -> None:
    apply = COMPOSE["services"]["apply"]
    assert (apply["restart"], apply["healthcheck"]) == ("no", {"disable": True})
    for name in ("gateway", "writer", "admin"):
        service = COMPOSE["services"][name]
        assert service["depends_on"]["apply"]["condition"] == "service_completed_successfully"
        kafka = {k: v for k, v in service["environment"].items() if k.startswith("ONRAMP_KAFKA_")}
        mine = {k: v for k, v in apply["environment"].items() if k.startswith("ONRAMP_KAFKA_")}
        assert mine.items() <= kafka.items(), name
        assert "registry" not in _mounts(name), "the file is no second truth"


def test_apply_command_brings_the_registry_file_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog()
    monkeypatch.setattr(change, "open_log", lambda *_: log)
    for name, value in COMPOSE["services"]["apply"]["environment"].items():
        monkeypatch.setenv(name, value)
    file, words = _made(tmp_path), COMPOSE["services"]["apply"]["command"]
    verb = COMPOSE["services"]["apply"]["entrypoint"][-1]
    given = [str(file) if each.endswith("onramp.yaml") else each for each in words]
    for said in ("applied", "unchanged"):  # and again at each `docker compose up`
        answer = CliRunner().invoke(app, [verb, *given])
        assert (answer.exit_code, said in answer.stdout) == (0, True), answer.output
    snapshot = Editor(log).chain.snapshot()
    assert (list(snapshot.keys), list(snapshot.operators)) == (["tracer", "compose"], ["operator"])


def test_signals_reach_services_that_still_start() -> None:
    ours = {name for name, each in COMPOSE["services"].items() if "build" in each and each["restart"] != "no"}
    assert {"gateway", "writer", "admin"} <= ours
    assert [name for name in ours if COMPOSE["services"][name].get("init") is not True] == []


def test_no_port_is_published_twice() -> None:
    ports = [p for service in COMPOSE["services"].values() for p in service.get("ports", [])]
    assert len(ports) == len(set(ports))


def _mounts(service: str) -> set[str]:
    return {volume.split(":")[0] for volume in COMPOSE["services"][service].get("volumes", [])}


def test_no_secret_stands_in_the_file() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    defaults = re.findall(r"\$\{\w*(?:PASSWORD|KEY|SECRET|TOKEN)\w*:?-([^}]*)\}", text)
    assert set(defaults) == {""}
    assert not re.search(r"://[^/\s:@]+:[^/\s@]+@", text), "a password in an address"
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            is_secret = re.search("PASSWORD|SECRET|TOKEN|_KEY$", name) and not name.endswith("_FILE")
            assert not is_secret or not value, name


def test_secrets_are_mounted_only_in_the_services_that_need_them() -> None:
    assert [name for name in COMPOSE["services"] if "sender" in _mounts(name)] == ["secrets"]
    assert [name for name in COMPOSE["services"] if "tracer" in _mounts(name)] == ["secrets", "tracer"]
    assert "database" not in _mounts("gateway")
    assert [name for name in COMPOSE["services"] if "registry" in _mounts(name)] == ["secrets", "apply"]
    for name in ("apply", "postgres", "writer", "admin"):
        mine = [
            v for v in COMPOSE["services"][name]["volumes"] if v.split(":")[0] in {"registry", "database"}
        ]
        assert all(each.endswith(":ro") for each in mine), name
        needed = COMPOSE["services"][name]["depends_on"]["secrets"]["condition"]
        assert needed == "service_completed_successfully"


def test_services_start_and_admit_those_whose_keys_are_made_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONRAMP_ALLOW_KEYLESS", raising=False)
    for name in ("gateway", "admin"):
        for variable, value in COMPOSE["services"][name]["environment"].items():
            monkeypatch.setenv(variable, value)
    require_safe(IngestSettings(), KafkaSettings())
    admin.require_safe(AdminSettings())
    assert AccessSettings().allow_keyless is False
    made = MemoryRegistry(yaml.safe_load(_made(tmp_path).read_text())).snapshot()
    assert made.keys
    assert made.operators


def test_secrets_are_made_once_and_readable_by_their_owner_alone(tmp_path: Path) -> None:
    registry = _made(tmp_path)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    before = {file: file.read_text() for file in files}
    assert len(files) == 6
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    for name in ("sender/compose", "sender/operator", "tracer/tracer"):
        key = (tmp_path / f"{name}.key").read_text().strip()
        assert hashlib.sha256(key.encode()).hexdigest() in registry.read_text()
        assert key not in registry.read_text()
    _made(tmp_path)
    assert {file: file.read_text() for file in files} == before


def test_volumes_from_before_get_an_operator_and_keep_their_key(tmp_path: Path) -> None:
    registry = _made(tmp_path)
    old = registry.read_text().partition("operators:")[0]
    registry.write_text(old)
    (tmp_path / "sender/operator.key").unlink()
    _made(tmp_path)
    assert registry.read_text().startswith(old)
    assert list(load(registry).operators) == ["operator"]


def test_an_older_databases_password_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTGRES_PASSWORD", "a:b\\c")
    _made(tmp_path)
    assert (tmp_path / "database/password").read_text() == "a:b\\c"
    assert (tmp_path / "database/pgpass").read_text() == "postgres:5432:onramp:onramp:a\\:b\\\\c\n"


def _made(volumes: Path) -> Path:
    for name in ("registry", "sender", "database", "tracer"):
        (volumes / name).mkdir(exist_ok=True)
    runpy.run_path(str(ROOT / "deploy/make_secrets.py"))["main"](volumes)
    return volumes / "registry/onramp.yaml"


def test_kafkas_variables_are_settings_that_the_embedded_broker_knows_too() -> None:
    """The image makes `log.dirs` of KAFKA_LOG_DIRS; a misspelt one would be ignored in silence."""
    node = Node(id=1, port=1, controller_port=2, folder=Path("/nowhere"))
    embedded = dict(line.split("=", 1) for line in settings_of(node, [node]).splitlines())
    given = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in COMPOSE["services"]["kafka"]["environment"].items()
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"
    }
    assert set(given) - set(embedded) == {"inter.broker.listener.name"}
    machine = {"listeners", "advertised.listeners", "listener.security.protocol.map", "log.dirs"}
    machine |= {"controller.quorum.voters", "inter.broker.listener.name"}
    assert {k: v for k, v in given.items() if k not in machine} == {
        k: embedded[k] for k in given if k not in machine
    }


def test_kafka_advertises_reachable_addresses_to_clients_inside_and_outside() -> None:
    environment = COMPOSE["services"]["kafka"]["environment"]
    advertised = dict(each.split("://") for each in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert COMPOSE["services"]["gateway"]["environment"]["ONRAMP_KAFKA_BOOTSTRAP"] == advertised["INSIDE"]
    for name in ("writer", "apply", "admin"):
        assert COMPOSE["services"][name]["environment"]["ONRAMP_KAFKA_BOOTSTRAP"] == advertised["INSIDE"]
    assert f"{advertised['OUTSIDE']}:9092" in COMPOSE["services"]["kafka"]["ports"]


@pytest.mark.parametrize(
    ("service", "ports"),
    [
        ("gateway", ["ONRAMP_INGEST_PORT", "ONRAMP_INGEST_ADMIN_PORT"]),
        ("writer", ["ONRAMP_WRITER_HTTP_PORT"]),
        ("admin", ["ONRAMP_ADMIN_PORT"]),
        ("tracer", ["ONRAMP_TRACER_PORT"]),
        ("transform", ["ONRAMP_TRANSFORM_HTTP_PORT"]),
        ("lake", ["ONRAMP_LAKE_HTTP_PORT"]),
        ("compaction", ["ONRAMP_COMPACTION_HTTP_PORT"]),
    ],
)
def test_published_ports_and_probes_are_the_services_own(service: str, ports: list[str]) -> None:
    numbers = [COMPOSE["services"][service]["environment"][port] for port in ports]
    assert COMPOSE["services"][service]["ports"] == [f"127.0.0.1:{n}:{n}" for n in numbers]
    assert f"127.0.0.1:{numbers[-1]}/readyz" in COMPOSE["services"][service]["healthcheck"]["test"][-1]


def test_stop_grace_period_is_longer_than_the_shutdown_setting_of_the_service() -> None:
    settings = {name: value for _, each in generate.settings_classes() for name, value in _defaults(each)}
    for service, grace in (
        ("gateway", "ONRAMP_INGEST_GRACE_SECONDS"),
        ("writer", "ONRAMP_WRITER_STOP_MARGIN_SECONDS"),
    ):
        period = COMPOSE["services"][service]["stop_grace_period"]
        assert float(period.removesuffix("s")) > settings[grace]


def _defaults(settings: Any) -> list[tuple[str, Any]]:
    prefix = settings.model_config["env_prefix"]
    return [((prefix + name).upper(), field.default) for name, field in settings.model_fields.items()]
