"""The reader of a task: a worker process reuses one reader, with its connections, from batch to batch."""

import asyncio
from collections.abc import Generator, Iterable

from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_read.fetch import Fetcher
from shared.kafka_read.offsets import Range
from shared.kafka_read.records import PartitionSlice
from shared.kafka_security import Brokers


class RangeReader:
    """Reads ranges in a process without a running event loop."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._loop = asyncio.new_event_loop()
        self._fetcher: Fetcher | None = None
        self._files_version = ""

    def read(self, ranges: Iterable[Range]) -> Generator[list[PartitionSlice]]:
        """Yield the records of `ranges` as `Fetcher.read` does, and raise the same errors.

        Close the generator if it is not exhausted: its pending requests must not mix with the next read's.
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
        """Return the fetcher; a new one if files with secrets have changed since its creation.

        Raise `InfrastructureError`, also for a missing file, for example during its replacement; any other
        error would blame the records.
        """
        try:
            version = self._brokers.security.files_version
            if self._fetcher is None or self._files_version != version:
                self.disconnect()
                self._files_version = version
                self._fetcher = self._loop.run_until_complete(_started(self._brokers))
        except OSError as e:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"no login: {e}") from e
        return self._fetcher

    def disconnect(self) -> None:
        """Disconnect from Kafka; the next `read` reconnects."""
        fetcher, self._fetcher = self._fetcher, None
        if fetcher:
            self._loop.run_until_complete(fetcher.stop())

    def close(self) -> None:
        """Disconnect from Kafka permanently."""
        self.disconnect()
        self._loop.close()


async def _started(brokers: Brokers) -> Fetcher:
    fetcher = Fetcher(brokers)  # within the loop, as aiokafka requires
    try:
        return await fetcher.start()
    except BaseException:
        await fetcher.stop()
        raise
