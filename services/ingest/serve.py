"""The gateway's process: uvicorn with the gateway's protocol and limits."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from services.ingest.auth import quota_levels
from services.ingest.http.handshake import Handshake
from services.ingest.http.protocol_limits import LimitedProtocol
from services.ingest.process.open_files import require_files
from services.ingest.process.server import Server
from services.ingest.process.workers import Workers
from services.ingest.settings import STOP_SECONDS, IngestSettings
from services.ingest.unsafe_setups import UnsafeSetupError, require_safe
from shared.logs import set_up
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.settings import AccessSettings, KafkaSettings, RegistrySettings

_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def serve() -> None:
    """Serve until SIGTERM or SIGINT."""
    try:
        settings, kafka = read_settings(IngestSettings), read_settings(KafkaSettings)
        read_settings(RegistrySettings), read_settings(AccessSettings)
    except WrongSettingsError as e:
        sys.exit(f"The gateway does not start:\n{e}")
    set_up("ingest", settings.log_level)
    warn_of_unknown(IngestSettings, KafkaSettings, RegistrySettings)
    try:
        # Here as well as in the workers: a supervisor would restart failing workers forever.
        require_safe(settings, kafka)
    except (UnsafeSetupError, WrongSettingsError) as e:
        sys.exit(f"The gateway does not start:\n{e}")
    try:
        settings.tls()
    except OSError as e:
        sys.exit(
            f"The gateway does not start: its certificate cannot be used ({e}): name a certificate and the "
            "key that belongs to it, as PEM, in ONRAMP_INGEST_TLS_CERT_FILE and ONRAMP_INGEST_TLS_KEY_FILE."
        )
    try:
        require_files(settings)
    except OSError as e:
        sys.exit(f"The gateway does not start: {e}.")
    # uvicorn stops gracefully and then raises the signal again: a success, not a crash.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with _shared_by_workers(settings.workers):
        _serve(settings)


def _serve(settings: IngestSettings) -> None:
    config = uvicorn.Config(
        "services.ingest.app:create",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=Handshake if settings.tls_cert_file else LimitedProtocol,
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # The default of 5 s kills a worker that is busy under load.
        timeout_worker_healthcheck=30,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=int(settings.grace_seconds - settings.drain_seconds - STOP_SECONDS),
    )
    if settings.workers > 1:
        Workers(config, [config.bind_socket()], start_seconds=settings.worker_start_seconds).run()
        return
    server = Server(config)
    server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)


@contextmanager
def _shared_by_workers(workers: int) -> Iterator[None]:
    """Give several workers a folder for their metrics and a file for the levels of their quotas.

    Both are empty at the start and removed at the end.
    """
    if workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="onramp-workers-") as folder:
        quotas = Path(folder) / "quotas"
        with quotas.open("wb") as file:
            file.truncate(quota_levels.SIZE)
        os.environ |= {_METRICS_FOLDER: folder, quota_levels.FILE: str(quotas)}
        yield
