"""The reader of a task: a worker process keeps one, with its connections, from batch to batch."""

import asyncio
from collections.abc import Generator, Iterable

from services.writer.model.offsets import Range
from services.writer.model.records import PartitionSlice
from services.writer.read.fetch import Fetcher
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers


class RangeReader:
    """Reads ranges in a process that has no event loop of its own running."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._loop = asyncio.new_event_loop()
        self._fetcher: Fetcher | None = None
        self._made_with = ""

    def read(self, ranges: Iterable[Range]) -> Generator[list[PartitionSlice]]:
        """Yield the records of `ranges` as `Fetcher.read` does, and raise what it raises.

        To be closed if it is not read to its end: what it had asked for must not meet the next one.
        """
        wanted = [r for r in ranges if len(r)]
        if not wanted:
            return
        pieces = self._connected().read(wanted)
        try:
            while (piece := self._loop.run_until_complete(anext(pieces, None))) is not None:
                yield piece
        except BaseException:
            self._loop.run_until_complete(pieces.aclose())
            self.disconnect()
            raise

    def _connected(self) -> Fetcher:
        """The fetcher; another one if files with secrets have changed since it was made.

        Raise `InfrastructureError`, also for a file that is away, as in the middle of its change: else the
        records would be suspected.
        """
        try:
            version = self._brokers.security.files_version
            if self._fetcher is None or self._made_with != version:
                self.disconnect()
                self._made_with = version
                self._fetcher = self._loop.run_until_complete(_started(self._brokers))
        except OSError as e:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"no login: {e}") from e
        return self._fetcher

    def disconnect(self) -> None:
        """Leave Kafka; the next `read` connects again."""
        fetcher, self._fetcher = self._fetcher, None
        if fetcher:
            self._loop.run_until_complete(fetcher.stop())

    def close(self) -> None:
        """Leave Kafka for good."""
        self.disconnect()
        self._loop.close()


async def _started(brokers: Brokers) -> Fetcher:
    fetcher = Fetcher(brokers)  # within the loop, as aiokafka demands
    try:
        return await fetcher.start()
    except BaseException:
        await fetcher.stop()
        raise
