"""TLS begun by hand, for who must know a connection before its handshake is done.

A server that is given a certificate makes a connection known only after its handshake, for which
asyncio waits a minute: whoever connects and says nothing would hold as many files as there are.
"""

import asyncio
import ssl

from uvloop.loop import SSLProtocol  # type: ignore[attr-defined] # not in its stubs


def begin(
    transport: asyncio.Transport, protocol: asyncio.BaseProtocol, context: ssl.SSLContext, seconds: float
) -> "asyncio.Future[None]":
    """Let `protocol` speak over TLS; return what is done when the handshake is, or has failed.

    A handshake that takes more than `seconds` fails, and so does a connection's end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    tls = SSLProtocol(
        loop,
        protocol,
        context,
        done,
        server_side=True,
        call_connection_made=True,
        ssl_handshake_timeout=seconds,
        ssl_shutdown_timeout=seconds,
    )
    transport.set_protocol(tls)
    tls.connection_made(transport)
    return done
