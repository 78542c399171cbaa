"""The load generator over HTTPS, and Kafka behind TLS and a login."""

import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest

from loadtest.client_claims import IS_OK
from loadtest.shapes import BATCH, KAFKA, Shape, Step
from stack import services
from stack.services import Service
from tests.fixtures.fix_tls import Secured
from tests.fixtures.writer import eventually
from tests.integration.loadtest.test_generator import generated

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def gateway(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    shown = secured.authority.issue("gateway")
    door = {"ONRAMP_INGEST_TLS_CERT_FILE": str(shown.cert), "ONRAMP_INGEST_TLS_KEY_FILE": str(shown.key)}
    service = services.gateway(
        bootstrap=secured.kafka.bootstrap_of("SASL"),
        log=tmp_path_factory.mktemp("load") / "gateway.log",
        env=secured.env("SASL") | door,
    )
    trusting = ssl.create_default_context(cafile=secured.authority.ca)
    service.start()
    try:
        eventually(partial(_is_ready, service, trusting), 120)
        yield service
    finally:
        service.stop()


def _is_ready(service: Service, trusting: ssl.SSLContext) -> bool:
    try:
        found = httpx2.get(f"https://127.0.0.1:{service.port}/readyz", verify=trusting, timeout=60)
    except httpx2.TransportError:
        return False
    return found.status_code == 200


@pytest.mark.parametrize(
    ("shape", "trusted"),
    [
        (Shape(name="x", via=BATCH, size=15, batch=5, steps=(Step(0.4, 250),), connections=2), True),
        (Shape(name="x", via=KAFKA, size=15, batch=1, steps=(Step(0.4, 50),), connections=2), True),
        (Shape(name="x", via=BATCH, size=15, batch=5, steps=(Step(0.4, 250),), connections=2), False),
    ],
)
def test_it_sends_where_it_can_trust_the_certificate(
    shape: Shape, trusted: bool, gateway: Service, secured: Secured, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in secured.env("SASL").items():
            environment.setenv(name, value)
        claims, records = generated(
            shape,
            gateway.url.replace("http:", "https:"),
            secured.kafka.bootstrap_of("SASL"),
            tmp_path,
            ca_file=str(secured.authority.ca) if trusted else "",
        )
    assert claims.count(IS_OK) == records == (20 * shape.batch if trusted else 0)
