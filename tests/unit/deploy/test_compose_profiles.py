"""Optional services of docker-compose.yml: off by default, each behind the profile that its page names."""

import re

import yaml

from tests.compose.base_images import STAND_INS
from tests.unit.conventions.tree import ROOT
from tests.unit.deploy import compose_file

SERVICES = compose_file.load()["services"]
PROFILES = {
    "cdc": {"connect", "agent", "merger"},
    "transforms": {"transform"},
    "lake": {"lake", "compaction"},
    "watch": {"tracer", "prometheus", "grafana"},
}


def test_optional_services_are_off_by_default() -> None:
    grouped: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        for profile in service.get("profiles", []):
            grouped.setdefault(profile, set()).add(name)
    assert grouped == PROFILES


def test_a_service_that_is_on_waits_for_none_that_is_off() -> None:
    for name, service in SERVICES.items():
        for needed in service.get("depends_on", {}):
            profiles = set(SERVICES[needed].get("profiles", []))
            assert not profiles or profiles & set(service.get("profiles", [])), f"{name} waits for {needed}"


def test_make_test_compose_has_a_stand_in_for_each_image_of_others_but_grafana() -> None:
    images = {each["image"] for each in SERVICES.values() if "build" not in each}
    for file in (ROOT / "deploy").glob("*.Dockerfile"):
        text = file.read_text("utf-8")
        stages = set(re.findall(r" AS ([\w-]+)", text))
        images |= set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) - stages
    assert images - {"grafana/grafana:11.6.0"} == set(STAND_INS)


def test_services_that_read_the_lake_mount_its_tables_read_only() -> None:
    volumes = {name: each.get("volumes", []) for name, each in SERVICES.items()}
    mounts = {name: mount for name, each in volumes.items() for mount in each if "lake:" in mount}
    writers, readers = ("lake", "compaction"), ("admin", "tracer")
    assert mounts == dict.fromkeys(writers, "lake:/lake") | dict.fromkeys(readers, "lake:/lake:ro")
    for name in mounts:
        assert SERVICES[name]["environment"]["ONRAMP_LAKE_URL"] == "/lake", name
        # The image of the first container that mounts the new volume decides the owner of its folder.
        dockerfile = (ROOT / SERVICES[name]["build"]["dockerfile"]).read_text("utf-8")
        assert "install -d -o 10001 -g 10001 /lake\n" in dockerfile, name
    # Without the profile no table fills, and tracers would be reported as not in the lake.
    assert SERVICES["tracer"]["environment"]["ONRAMP_TRACER_LAKE_TABLE"] == ""


def test_prometheus_has_no_target_that_is_off() -> None:
    """A name that does not resolve is no target; a static one would be down."""
    jobs = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))["scrape_configs"]
    for job in jobs:
        for target in [each for static in job.get("static_configs", []) for each in static["targets"]]:
            assert SERVICES[target.partition(":")[0]].get("profiles", ["watch"]) == ["watch"], target
        for name in [name for each in job.get("dns_sd_configs", []) for name in each["names"]]:
            assert SERVICES[name]["profiles"], name


def test_only_the_agent_reaches_kafka_connect() -> None:
    """Its interface has no login, and any client that configures a connector gets passwords of sources."""
    address = SERVICES["connect"]["environment"]["ONRAMP_CONNECT_HOST"]
    assert SERVICES["connect"]["networks"]["capture"]["aliases"] == [address]
    assert "ports" not in SERVICES["connect"]
    assert [name for name, each in SERVICES.items() if "capture" in each.get("networks", [])] == [
        "connect",
        "agent",
    ]
    assert SERVICES["agent"]["environment"]["ONRAMP_AGENT_CONNECT_URL"] == f"http://{address}:8083"


def test_agent_and_kafka_connect_read_the_same_folder_of_passwords() -> None:
    mounts = [
        {each for each in SERVICES[name]["volumes"] if "/run/sources" in each}
        for name in ("connect", "agent")
    ]
    assert mounts == [{"./sources:/run/sources:ro"}] * 2
    assert SERVICES["connect"]["environment"]["ONRAMP_CONNECT_SOURCES_FOLDER"] == "/run/sources"
    assert SERVICES["agent"]["environment"]["ONRAMP_AGENT_DSN_FOLDER"] == "/run/sources"
