"""The lines that functions print or log, from their topic on Kafka, which holds them for a day."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from services.ops.kafka_logs import KafkaLogs, LogRecord
from shared import wire
from shared.kafka_security import Brokers
from shared.printable_text import printable


class FunctionLine(NamedTuple):
    """A line of a function; `event_id` is empty if it belongs to no event."""

    transform: str
    digest: str
    event_id: str
    #: Seconds since 1970.
    at: float
    level: str
    text: str

    def shown(self) -> str:
        """Return the line for people, with control characters escaped."""
        at = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds")
        line = f"{at} {self.level} {self.transform}@{self.digest[:12]} {self.event_id or '-'} {self.text}"
        return printable(line)


async def lines(brokers: Brokers, name: str, last: int, *, follows: bool) -> AsyncIterator[FunctionLine]:
    """Yield the last lines of a transform, and with `follows` later ones forever.

    Raise `InfrastructureError`.
    """
    async with KafkaLogs(brokers) as logs:
        spans = await logs.spans([wire.TRANSFORM_LOGS])
        recent: list[FunctionLine] = []
        async for record in logs.read(spans):
            if (line := _line(record, name)) is not None:
                recent = [*recent[-last + 1 :], line] if last > 1 else [line]
        for line in recent:
            yield line
        if follows:
            async for record in logs.follow({source: end for source, (_, end) in spans.items()}):
                if (line := _line(record, name)) is not None:
                    yield line


def _line(record: LogRecord, name: str) -> FunctionLine | None:
    """Return the line of this transform; None for other records."""
    if record.key != name.encode():
        return None
    try:
        document: Any = orjson.loads(record.value or b"")
        return FunctionLine(
            transform=name,
            digest=str(document["digest"]),
            event_id=str(document["event_id"]),
            at=float(document["at"]),
            level=str(document["level"]),
            text=str(document["text"]),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
