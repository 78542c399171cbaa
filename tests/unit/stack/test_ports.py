"""Ports that are called free are free, and different from each other."""

import socket

from stack import ports


def test_a_port_that_is_listened_on_is_not_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        assert not ports.is_free(taken)
        assert ports.pick(taken) != taken
    assert ports.is_free(taken)
    assert ports.pick(taken) == taken


def test_several_are_different() -> None:
    many = ports.free_ports(50)
    assert len(set(many)) == 50


def test_none_is_of_the_range_of_outgoing_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        outgoing = client.getsockname()[1]
    assert max(ports.free_ports(50)) < min(outgoing, 32_768)
