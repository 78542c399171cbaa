"""Gateways that differ in one setting, running together on one Kafka, for benches that load them in turn.

A variant is what follows ``ONRAMP_INGEST_``, comma-separated (``LINGER_MS=5,COMPRESSION=lz4``), and
``TLS`` for HTTPS with a certificate of the run's own; one that starts with a slash is the folder of
another tree, whose gateway is started with its own settings.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from stack import services
from stack.kafka import Kafka
from stack.ports import LOOPBACK, free_port
from stack.services import Service

KEY: Final = "onramp_dev_bench-of-gateways-on-loopback"
_TLS: Final = "TLS"


@dataclass(frozen=True)
class Variant:
    """A running gateway; its pages are on the port for operators, which is always cleartext."""

    service: Service
    port: int
    ca_file: Path | None

    @property
    def pid(self) -> int:
        """The process id."""
        return self.service.pid


@contextmanager
def running(variants: Sequence[str], kafka: Kafka, folder: Path) -> Iterator[dict[str, Variant]]:
    """Start a gateway for each variant; stop them at the end."""
    with ExitStack() as stack:
        up = {}
        for number, variant in enumerate(variants):
            own = folder / f"gateway-{number}"
            own.mkdir(exist_ok=True)
            up[variant] = _gateway(variant, kafka, own)
            stack.callback(up[variant].service.stop)
            up[variant].service.start()
            up[variant].service.wait_ready()
        yield up


def _gateway(variant: str, kafka: Kafka, folder: Path) -> Variant:
    port, admin = free_port(), free_port()
    env = {"ONRAMP_INGEST_DEV_KEY": KEY, "ONRAMP_INGEST_ADMIN_PORT": str(admin)}
    tree = Path(variant) if variant.startswith("/") else None
    words = [] if tree else [word for word in variant.split(",") if word]
    pairs = (word.partition("=") for word in words if word != _TLS)
    env |= {f"ONRAMP_INGEST_{name}": value for name, _, value in pairs}
    ca_file = None
    if _TLS in words:
        ca_file, key = _certificate(folder)
        env |= {"ONRAMP_INGEST_TLS_CERT_FILE": str(ca_file), "ONRAMP_INGEST_TLS_KEY_FILE": str(key)}
    if tree:
        env["PYTHONPATH"] = str(tree)
    service = services.gateway(bootstrap=kafka.bootstrap, log=folder / "log", port=port, env=env)
    if tree:
        service.child.command = replace(service.child.command, cwd=tree)
    service.port, service.url = admin, f"http://{LOOPBACK}:{admin}"
    return Variant(service, port, ca_file)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    names = ("-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{LOOPBACK}")
    files = ("-keyout", str(key), "-out", str(cert))
    subprocess.run(["openssl", "req", "-x509", *curve, *names, *files], check=True, capture_output=True)
    return cert, key
