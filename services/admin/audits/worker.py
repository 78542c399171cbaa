"""`python -m services.admin.audits.worker`: one audit, as the service's child.

The request comes on standard input, because it has DSNs.  Standard output has a JSON line for each partition,
and the report as the last one.  The process ends when its parent does.
"""

import asyncio
import os
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from services.ops.audit.run import Request, audit
from services.ops.registry.change import editing
from services.ops.transforms.output_topics import output_topics_of
from shared.errors import InfrastructureError
from shared.lake.settings import LakeStorageSettings
from shared.priority import come_last
from shared.read_settings import read_settings
from shared.settings import KafkaSettings

if TYPE_CHECKING:
    from services.ops.audit.lake import Lake


def main() -> None:
    """Run the audit of the request."""
    come_last()
    asked: dict[str, Any] = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kafka = read_settings(KafkaSettings).model_copy(update={"bootstrap": asked["bootstrap"]})
    request = Request(
        kafka.brokers,
        asked["databases"],
        deep=asked["deep"],
        control=asked["control"],
        output_topics=lambda: output_topics_of(kafka),
    )
    try:
        request = replace(request, lake=_lake(kafka))
        report = asyncio.run(audit(request, progress=lambda done, total: _say(done=done, total=total)))
    except InfrastructureError as e:
        _say(error=e.detail)
    else:
        _say(report=report.as_dict())


def _lake(kafka: KafkaSettings) -> "Lake | None":
    """Return the lake of the settings, with the registry on Kafka; None without a storage.

    Raise `InfrastructureError`.
    """
    settings = read_settings(LakeStorageSettings)
    if not settings.url:
        return None
    from services.ops.audit.lake import Lake  # noqa: PLC0415 - Delta and Arrow load for a lake alone

    with editing(kafka) as editor:
        return Lake(settings.storage, editor.chain.snapshot())


def _say(**document: Any) -> None:
    sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    """Exit when the parent closes the pipe, as it does when it ends in any way."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
