"""A GET over asyncio that a silent server cannot delay: one deadline for all of it, and a maximum size.

The standard library's client has a timeout for each read, so a server that sends a byte a second would hold
its thread.  HTTP/1.0 is requested, because its answers are never in chunks.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

T = TypeVar("T")

_MAX_BYTES: Final = 8 << 20
_OK: Final = 200


class NoAnswerError(Exception):
    """A service did not answer; the text says why, and holds no part of an answer."""


@dataclass(frozen=True, slots=True)
class Address:
    """One address of a service: the URL that names it, and the IP address that its host has."""

    url: str
    ip: str

    @property
    def is_tls(self) -> bool:
        """Return whether the URL is https."""
        return urlsplit(self.url).scheme == "https"

    @property
    def port(self) -> int:
        """Return the URL's port."""
        return port_of(self.url)


def port_of(url: str) -> int:
    """Return the port of a URL, or the usual one of its scheme."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


async def get(address: Address, path: str, seconds: float) -> bytes:
    """Return the body of a 200 answer.  Raises `NoAnswerError`, after `seconds` at most."""
    try:
        async with asyncio.timeout(seconds):
            return await _get(address, path)
    except TimeoutError:
        raise NoAnswerError(f"no answer in {seconds:g} s") from None
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise NoAnswerError(_why(error)) from None


async def read_page(address: Address, path: str, decode: Callable[[bytes], T], seconds: float) -> T | str:
    """Return the decoded page of one of Onramp's services, or why it has none."""
    try:
        return decode(await get(address, path, seconds))
    except NoAnswerError as error:
        return str(error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return f"its answer is no {path.removeprefix('/')}: its version differs, or it is another service"


async def _get(address: Address, path: str) -> bytes:
    parts = urlsplit(address.url)
    context = ssl.create_default_context() if address.is_tls else None
    reader, writer = await asyncio.open_connection(
        address.ip, address.port, ssl=context, server_hostname=parts.hostname if context else None
    )
    try:
        head = f"GET {parts.path}{path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        status = int((await reader.readuntil(b"\r\n"))[len("HTTP/1.1 ") :][:3])
        if status != _OK:
            raise NoAnswerError(f"it answers {status}")
        length = await _content_length(reader)
        if length is not None:
            return await reader.readexactly(length)
        body = await reader.read(_MAX_BYTES)
        while more := await reader.read(_MAX_BYTES - len(body)):
            body += more
        return body
    finally:
        writer.close()


async def _content_length(reader: asyncio.StreamReader) -> int | None:
    """Read the headers and return the announced length."""
    length = None
    while (line := (await reader.readuntil(b"\r\n")).strip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
            if not 0 <= length <= _MAX_BYTES:
                raise NoAnswerError("its answer is too large")
    return length


def _why(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"its answer is no HTTP ({type(error).__name__})"
