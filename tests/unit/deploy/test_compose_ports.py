"""Ports of docker-compose.yml on this machine are variables, so that two stacks run side by side."""

import re

from docs import generate
from tests.unit.deploy import compose_file

_NAME = re.compile(r"ONRAMP_COMPOSE_\w+_PORT")


def _host_ports(compose: compose_file.Compose) -> list[str]:
    return [port.split(":")[1] for each in compose["services"].values() for port in each.get("ports", [])]


def test_each_published_port_has_a_variable_with_a_documented_default() -> None:
    raw = [line.strip() for line in compose_file.TEXT.splitlines() if "- 127.0.0.1:" in line]
    names = [name for line in raw for name in _NAME.findall(line)]
    assert len(names) == len(set(names)) == len(raw)
    documented = {name for name in generate.OTHER_VARIABLES if _NAME.fullmatch(name)}
    assert documented == set(names)
    for name, port in zip(names, _host_ports(compose_file.load()), strict=True):
        assert generate.OTHER_VARIABLES[name].endswith(f"; {port} unless set."), name


def test_two_stacks_share_no_port_of_this_machine() -> None:
    names = set(_NAME.findall(compose_file.TEXT))
    second = compose_file.load({name: str(20000 + i) for i, name in enumerate(sorted(names))})
    assert not set(_host_ports(compose_file.load())) & set(_host_ports(second))


def test_kafka_advertises_its_port_on_this_machine() -> None:
    kafka = compose_file.load({"ONRAMP_COMPOSE_KAFKA_PORT": "19092"})["services"]["kafka"]
    assert kafka["ports"] == ["127.0.0.1:19092:9092"]
    assert "OUTSIDE://127.0.0.1:19092" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")


def test_the_documented_password_is_the_random_one() -> None:
    text = generate.OTHER_VARIABLES["ONRAMP_POSTGRES_PASSWORD"]
    assert "random" in text
    assert "`onramp`" not in text
