"""`python -m services.lake.compaction`: maintains the lake's tables until SIGTERM or SIGINT."""

import logging
import signal
import sys
import threading
from http import HTTPStatus
from typing import Final

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.lake.compaction.delta_rounds import Rounds
from services.lake.compaction.metrics import CompactionMetrics
from services.lake.compaction.retention import keep_days_of
from services.lake.compaction.settings import CompactionSettings
from shared import logs
from shared.lake.settings import URL_MISSING, LakeStorageSettings
from shared.lake.status import CompactionStatus
from shared.page_server import JSON, PageServer, alive
from shared.read_settings import WrongSettingsError, read_settings, warn_of_unknown
from shared.registry import Registry
from shared.registry.factory import open_registry
from shared.settings import KafkaSettings, RegistrySettings

log = logging.getLogger(__name__)

EXIT_USAGE: Final = 2


def main() -> int:
    """Run until a stop signal; return the exit code, 2 for wrong settings."""
    logs.set_up("compaction")
    try:
        settings, storage = read_settings(CompactionSettings), read_settings(LakeStorageSettings)
        kafka, registry = read_settings(KafkaSettings), read_settings(RegistrySettings)
    except WrongSettingsError as e:
        log.error("a setting is wrong: the service does not start", extra={"reason": str(e)})  # noqa: TRY400
        return EXIT_USAGE
    if not storage.url:
        log.error(URL_MISSING)
        return EXIT_USAGE
    logs.set_up("compaction", settings.log_level)
    warn_of_unknown(CompactionSettings, KafkaSettings, RegistrySettings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _run(settings, storage, open_registry(registry, kafka), stop)
    return 0


def _run(
    settings: CompactionSettings, storage: LakeStorageSettings, registry: Registry, stop: threading.Event
) -> None:
    metrics = CompactionMetrics()
    rounds = Rounds(lambda: storage.storage, settings, metrics, stop.is_set)
    first = threading.Event()
    server = PageServer(
        {
            "/healthz": alive,
            "/readyz": lambda: (
                HTTPStatus.OK if first.is_set() else HTTPStatus.SERVICE_UNAVAILABLE,
                JSON,
                b'{"rounds":"%s"}' % (b"running" if first.is_set() else b"first"),
            ),
            "/status": lambda: (HTTPStatus.OK, JSON, _status(rounds)),
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(metrics.registry)),
        },
        settings.http_host,
        settings.http_port,
    ).start()
    log.info("compaction runs", extra={"url": storage.url, "port": server.port})
    try:
        while not stop.is_set():
            rounds.run(keep_days_of(registry))
            first.set()
            stop.wait(settings.round_seconds)
    finally:
        server.stop()
        registry.close()


def _status(rounds: Rounds) -> bytes:
    return msgspec.json.encode(CompactionStatus(rounds.status))


if __name__ == "__main__":
    sys.exit(main())
