"""The identity of a parked event: the fields by which readers group, page and replay without parsing it.

It contains nothing of the payload.  The texts are ASCII, because the outbox's database may not use UTF8.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from shared.kafka_read.records import received_at

_Texts = Sequence[str | None]


class Identity(NamedTuple):
    """An event's own metadata (a packet has none) and its record's times, as RFC 3339."""

    id: str | None = None
    event_name: str | None = None
    version: str | None = None
    received_at: str | None = None
    timestamp: str | None = None


UNKNOWN: Final = Identity()


def identities(records: pa.RecordBatch, ids: _Texts, names: _Texts, versions: _Texts) -> list[Identity]:
    """Return the identity of each of `records` (columns as `records.ARRIVALS`), row by row."""
    received = _as_texts(received_at(records))
    sent = _as_texts(records.column("timestamp"))
    escaped = [v and v.encode("ascii", "backslashreplace").decode() for v in versions]
    return [Identity(*each) for each in zip(ids, names, escaped, received, sent, strict=True)]


def _as_texts(times: pa.Array) -> list[str | None]:
    # By Arrow, because a header may name a year before 1 or after 9999, which Python does not support.
    return [time and time.replace(" ", "T") for time in times.cast(pa.string()).to_pylist()]
