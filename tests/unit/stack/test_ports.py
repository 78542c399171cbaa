"""Ports that are called free are free, and different from each other."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from stack import ports


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRAMP_CACHE", str(tmp_path))


def test_a_port_that_is_listened_on_is_not_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        assert not ports.is_free(taken)
        with closing(ports.UsualPorts()) as usual:
            assert usual.pick(taken) != taken
    assert ports.is_free(taken)
    with closing(ports.UsualPorts()) as usual:
        assert usual.pick(taken) == taken


def test_stacks_that_start_concurrently_pick_different_ports() -> None:
    port = ports.free_port()
    with closing(ports.UsualPorts()) as one, closing(ports.UsualPorts()) as other:
        assert one.pick(port) == port
        assert other.pick(port) != port  # nobody listens on it yet
        one.close()
        assert other.pick(port) == port


def test_several_are_different() -> None:
    many = ports.free_ports(50)
    assert len(set(many)) == 50


def test_free_ports_lie_below_the_range_of_outgoing_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        outgoing = client.getsockname()[1]
    assert max(ports.free_ports(50)) < min(outgoing, 32_768)
