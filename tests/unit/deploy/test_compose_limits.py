"""Containers of docker-compose.yml have no more rights and resources than they need."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.deploy import compose_file

COMPOSE = compose_file.load()
#: Capabilities that a container needs, because it starts as root and gives files or itself another owner.
NEEDED = {
    "secrets": {"CHOWN", "DAC_OVERRIDE"},
    "postgres": {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"},
}
#: Java executes libraries that it unpacks into /tmp.
JAVA = {"kafka", "writer", "transform", "lake", "connect"}
_MIN_START_SECONDS = 180
_TMP = "/tmp"  # noqa: S108 - of a container


def errors(compose: compose_file.Compose) -> list[str]:
    return [f"{name} {error}" for name, each in compose["services"].items() for error in _errors(name, each)]


def _errors(name: str, service: dict[str, Any]) -> list[str]:
    tmpfs = dict(each.split(":") for each in service.get("tmpfs", []))
    rotation = service.get("logging", {}).get("options", {})
    health = service["healthcheck"]
    rules = {
        "keeps capabilities": service.get("cap_drop") == ["ALL"],
        "has a capability too many": set(service.get("cap_add", [])) == NEEDED.get(name, set()),
        "may gain privileges": "no-new-privileges:true" in service.get("security_opt", []),
        "writes to its root": service.get("read_only") is True,
        "has no /tmp": _TMP in tmpfs,
        "has a /tmp without a limit": all("size=" in each for each in tmpfs.values()),
        "executes files of /tmp": ("exec" in tmpfs.get(_TMP, "").split(",")) == (name in JAVA),
        "has no limit of memory": bool(service.get("mem_limit")),
        "has no limit of processes": 0 < service.get("pids_limit", 0) <= 1024,
        "has logs without an end": {"max-size", "max-file"} <= rotation.keys(),
        "must be healthy too soon": "disable" in health
        or int(health.get("start_period", "0s").removesuffix("s")) >= _MIN_START_SECONDS,
        "runs without a check, so that `up --wait` fails": service["restart"] == "no" or "test" in health,
        "starts a JVM for its health": not any("kafka-" in each for each in health.get("test", [])),
    }
    return [text for text, holds in rules.items() if not holds]


def test_every_container_is_limited() -> None:
    assert errors(COMPOSE) == []


@pytest.mark.parametrize(
    ("service", "change", "error"),
    [
        ("gateway", lambda each: each.pop("cap_drop"), "keeps capabilities"),
        ("gateway", lambda each: each.update(cap_add=["NET_ADMIN"]), "has a capability too many"),
        ("writer", lambda each: each.update(security_opt=[]), "may gain privileges"),
        ("postgres", lambda each: each.update(read_only=False), "writes to its root"),
        ("kafka", lambda each: each.update(tmpfs=[f"{_TMP}:size=64m"]), "executes files of /tmp"),
        ("admin", lambda each: each.update(tmpfs=[f"{_TMP}:mode=1777"]), "has a /tmp without a limit"),
        ("admin", lambda each: each.pop("mem_limit"), "has no limit of memory"),
        ("tracer", lambda each: each.update(pids_limit=-1), "has no limit of processes"),
        ("grafana", lambda each: each.update(logging={"driver": "json-file"}), "has logs without an end"),
        ("kafka", lambda each: each["healthcheck"].update(start_period="30s"), "must be healthy too soon"),
        (
            "merger",
            lambda each: each.update(healthcheck={"disable": True}),
            "runs without a check, so that `up --wait` fails",
        ),
        (
            "kafka",
            lambda each: each["healthcheck"].update(test=["CMD", "kafka-broker-api-versions.sh"]),
            "starts a JVM for its health",
        ),
    ],
)
def test_a_planted_mistake_is_noticed(
    service: str, change: Callable[[dict[str, Any]], object], error: str
) -> None:
    compose = copy.deepcopy(COMPOSE)
    change(compose["services"][service])
    assert f"{service} {error}" in errors(compose)
