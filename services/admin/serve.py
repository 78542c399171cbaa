"""The admin service's process: stores parked events and serves them to operators."""

import logging
import os
import signal
import ssl
import sys
from typing import Final

import uvicorn
from fastapi import FastAPI

from services.admin.api.local import is_loopback
from services.admin.app import create
from services.admin.figures.settings import FiguresSettings
from services.admin.segments.folder import Segments
from services.admin.settings import AdminSettings
from services.admin.unsafe_setups import UnsafeSetupError, require_safe
from services.ops.registry.database_addresses import KnownPlaces
from services.ops.registry.registry_reader import RegistryReader
from shared.http11 import Http11Protocol
from shared.lake.settings import LakeStorageSettings
from shared.logs import set_up
from shared.malloc import return_large_blocks, share_heaps
from shared.postgres.source_dsns import SourceDsns
from shared.priority import come_last
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.registry.factory import open_registry
from shared.settings import AccessSettings, KafkaSettings, RegistrySettings
from shared.writer_databases import WriterDatabases

#: The writer's setting that names the default database.
_DEFAULT_DSN: Final = "ONRAMP_WRITER_DSN"
#: Size of the thread pool; one or two threads work at a time.
_HEAPS: Final = 2


def serve() -> None:
    """Serve until SIGTERM or SIGINT."""
    try:
        settings, kafka = read_settings(AdminSettings), read_settings(KafkaSettings)
        databases = read_settings(WriterDatabases)
        named = read_settings(RegistrySettings)
        figures = read_settings(FiguresSettings)
        lake = read_settings(LakeStorageSettings)
        registry = open_registry(named, kafka)
        require_safe(settings)
        access = read_settings(AccessSettings)
        tls = settings.tls()
    except (WrongSettingsError, UnsafeSetupError) as e:
        sys.exit(f"The admin service does not start:\n{e}")
    except OSError as e:
        sys.exit(
            f"The admin service does not start: its certificate cannot be used ({e}): name a certificate and "
            "the key that belongs to it, as PEM, in ONRAMP_ADMIN_TLS_CERT_FILE and ONRAMP_ADMIN_TLS_KEY_FILE."
        )
    dsn = settings.dsn.get_secret_value() or databases.dsn.get_secret_value()
    if not dsn:
        sys.exit(
            "The admin service does not start: no control database is known. Name one in ONRAMP_ADMIN_DSN, "
            f"or the writer's default one in {_DEFAULT_DSN} (docs/settings.md)."
        )
    set_up("admin", settings.log_level)
    _return_memory()
    # Parked events can wait; events that land on the same machine cannot.
    come_last()
    warn_of_unknown(AdminSettings, KafkaSettings, RegistrySettings)
    segments = Segments(settings.store) if settings.store else None
    by_name = databases.by_name()
    places = KnownPlaces(by_name, databases.schemas(), databases.owners())
    app = create(
        kafka.brokers,
        dsn,
        by_name,
        registry,
        segments,
        desk=RegistryReader(kafka, named, places),
        keyless=access.allow_keyless and is_loopback(settings.host),
        dev_key=settings.dev_key.get_secret_value(),
        rehearsals_per_hour=settings.rehearsed_groups_per_hour,
        source_dsns=SourceDsns(settings.dsn_folder),
        statement_days=settings.statement_days,
        figures=figures,
        lake=lake.storage if lake.url else None,
    )
    # uvicorn stops gracefully and then raises the signal again: that is a success, not a crash.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        _serve(app, settings, tls)
    finally:
        if segments and segments.is_waiting:
            _leave(sys.exception())


def _leave(ended_by: BaseException | None) -> None:
    """Exit at once with the same status: pyarrow would first wait for an unresponsive S3 server."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(ended_by, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    status = ended_by.code if isinstance(ended_by, SystemExit) else ended_by
    os._exit(status if isinstance(status, int) else int(status is not None))


def _return_memory() -> None:
    """Return freed memory of slices, segments and jobs to the system."""
    return_large_blocks()
    share_heaps(_HEAPS)
    # Set before pyarrow is imported: its own allocator does not return memory.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _serve(app: FastAPI, settings: AdminSettings, tls: ssl.SSLContext | None) -> None:
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Http11Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    config.load()
    config.ssl = tls  # uvicorn's own context would never be reloaded
    uvicorn.Server(config).run()
