"""Starts TLS explicitly, for servers that must know a connection before its handshake is done.

A server with a certificate reports a connection only after its handshake, for which
asyncio waits a minute: silent clients could use up all file descriptors.
"""

import asyncio
import ssl

from uvloop.loop import SSLProtocol  # type: ignore[attr-defined] # not in its stubs


def begin(
    transport: asyncio.Transport, protocol: asyncio.BaseProtocol, context: ssl.SSLContext, seconds: float
) -> "asyncio.Future[None]":
    """Run `protocol` over TLS; return an awaitable that is done when the handshake is done or has failed.

    A handshake that takes more than `seconds` fails, as does a closing one.
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
