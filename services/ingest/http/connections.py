"""The limit of HTTP connections, shared by address: a connection that waits for its client makes room.

Each connection is a file descriptor. Without descriptors the gateway cannot reach Kafka, which has
its registry too. When all places are taken, a new connection replaces one that waits for its
client (idle, silent, slow to send or to read): at the address with most connections, the one that has
waited longest. A connection whose request is being answered is never replaced.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from typing import Final, Protocol

from services.ingest.observe.metrics import CONNECTIONS_CLOSED_TALLY

#: The IPv6 prefix of one customer, who may use any address in it.
_IPV6_PREFIX: Final = 64


class Connection(Protocol):
    """A connection that has a place."""

    def make_room(self) -> None:
        """Close, because another connection gets the place."""


class _Address:
    """The connections of one address."""

    __slots__ = ("name", "open", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = 0
        #: Connections that wait for their clients, longest first, with the start of the wait.
        self.waiting: dict[Connection, int] = {}


class Connections:
    """The open connections: at most `limit`, and at most `address_limit` per address."""

    def __init__(self, limit: int, address_limit: int = 0, *, is_public: bool = True) -> None:
        """Count closed connections if `is_public`; the port for operators is not."""
        self.limit = limit
        self._is_public = is_public
        # All but a tenth: other addresses always find a place.
        self._address_limit = min(address_limit, limit) or limit - limit // 10
        self._addresses: dict[str, _Address] = {}
        self._of: dict[Connection, _Address] = {}
        self._moments = count()

    @property
    def open(self) -> int:
        """Return how many connections have a place."""
        return len(self._of)

    def add(self, connection: Connection, client: str) -> bool:
        """Give `connection` a place, replacing another if needed; return False if there is none."""
        name = _network(client)
        if not self._has_room(name):
            self._count("refused")
            return False
        address = self._of[connection] = self._addresses.setdefault(name, _Address(name))
        address.open += 1
        self.wait(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Free the connection's place, unless another connection has it already."""
        address = self._of.pop(connection, None)
        if address is None:
            return
        address.open -= 1
        address.waiting.pop(connection, None)
        if not address.open:
            del self._addresses[address.name]

    def wait(self, connection: Connection) -> None:
        """Record that the connection now waits for its client."""
        address = self._of.get(connection)
        if address is not None:
            address.waiting.pop(connection, None)
            address.waiting[connection] = next(self._moments)

    def work(self, connection: Connection) -> None:
        """Record that the connection's client now waits for the gateway."""
        address = self._of.get(connection)
        if address is not None:
            address.waiting.pop(connection, None)

    def _has_room(self, newcomer: str) -> bool:
        """Return whether there is a place for one more connection of that address; make room if needed."""
        mine = self._addresses.get(newcomer) or _Address(newcomer)
        if mine.open >= self._address_limit:
            loser: _Address | None = mine
        elif self.open >= self.limit:
            loser = self._fullest_address(mine)
        else:
            return True
        if loser is None or not loser.waiting:
            return False
        leaving = next(iter(loser.waiting))
        self.remove(leaving)
        leaving.make_room()
        self._count("replaced")
        return True

    def _count(self, reason: str) -> None:
        if self._is_public:
            CONNECTIONS_CLOSED_TALLY.add(reason)

    def _fullest_address(self, newcomers: _Address) -> _Address | None:
        """Return the address with most connections among those with a waiting one; None if all have fewer."""

        def crowd(address: _Address) -> tuple[int, int]:
            # The new connection counts, or two addresses would only replace each other in turn.
            return address.open + (address is newcomers), -next(iter(address.waiting.values()))

        waiting = [each for each in self._addresses.values() if each.waiting]
        most = max(waiting, key=crowd, default=None)
        return None if most is None or crowd(most)[0] <= newcomers.open else most


def _network(client: str) -> str:
    """Return the address, or the network of an IPv6 address."""
    if ":" not in client:
        return client
    address: IPv4Address | IPv6Address = ip_address(client.partition("%")[0])
    assert isinstance(address, IPv6Address)  # noqa: S101 - it has a colon
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(int(address) >> (128 - _IPV6_PREFIX))
