"""Changed certificate files are reloaded; the previous certificates stay in use while they cannot be."""

import asyncio
import logging
import ssl
from pathlib import Path

import pytest
from pydantic import ValidationError

from services.admin.settings import AdminSettings
from services.ingest.settings import IngestSettings
from shared.tls import client_context, server_context
from tests.fixtures.authority import Authority, left


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def _shown(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """The name in the certificate that a client sees."""
    door = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=server)
    async with door:
        _, writer = await asyncio.open_connection(*door.sockets[0].getsockname()[:2], ssl=client)
        found = writer.get_extra_info("peercert")["subject"][0][0][1]
        await left(writer)
        return str(found)


def test_a_renewed_certificate_is_shown_at_the_next_handshake(authority: Authority) -> None:
    issued = authority.issue("first")
    server = server_context(issued.cert, issued.key)
    client = client_context(authority.ca, None, None)
    assert asyncio.run(_shown(server, client)) == "first"
    issued.replace(authority.issue("second"))
    assert asyncio.run(_shown(server, client)) == "second"


def test_half_of_a_renewal_leaves_what_was(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    issued = authority.issue("first")
    server = server_context(issued.cert, issued.key)
    client = client_context(authority.ca, None, None)
    issued.cert.write_bytes(authority.issue("second").cert.read_bytes())
    with caplog.at_level(logging.ERROR):
        assert asyncio.run(_shown(server, client)) == "first"
        assert asyncio.run(_shown(server, client)) == "first"
        assert caplog.text.count("keeping the previous ones") == 1  # not for each client
        issued.cert.write_bytes(authority.issue("a third, of another size").cert.read_bytes())
        assert asyncio.run(_shown(server, client)) == "first"
    assert caplog.text.count("keeping the previous ones") == 2


def test_a_ca_that_is_trusted_no_more_is_no_more(authority: Authority, tmp_path: Path) -> None:
    issued, trusted = authority.issue("server"), tmp_path / "trusted.pem"
    trusted.write_bytes(authority.ca.read_bytes())
    server, client = server_context(issued.cert, issued.key), client_context(trusted, None, None)
    assert asyncio.run(_shown(server, client)) == "server"
    trusted.write_bytes(Authority(tmp_path / "other").ca.read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError, match="was issued by none of"):
        asyncio.run(_shown(server, client))


@pytest.mark.parametrize("settings", [AdminSettings, IngestSettings])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls_cert_file": "a"}, "tls_cert_file and tls_key_file go together"),
        ({"tls_key_file": "a"}, "tls_cert_file and tls_key_file go together"),
        ({"tls_client_ca_file": "a"}, "TLS needs tls_cert_file"),
    ],
)
def test_a_service_needs_a_certificate_with_its_key(
    settings: type[AdminSettings | IngestSettings], given: dict[str, str], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(**given)


def test_syslog_over_tls_needs_a_certificate() -> None:
    with pytest.raises(ValidationError, match="TLS needs tls_cert_file"):
        IngestSettings(syslog_tls_port=6514)
