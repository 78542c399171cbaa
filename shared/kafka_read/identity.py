"""The identity of a parked event: the fields by which readers group, page and replay without parsing it.

It contains nothing of the payload.  The texts are ASCII, because the outbox's database may not use UTF8.
"""

from collections.abc import Sequence

import pyarrow as pa

from shared.kafka_read.records import received_at
from shared.parked_record import Identity

_Texts = Sequence[str | None]


def identities(records: pa.RecordBatch, ids: _Texts, names: _Texts, versions: _Texts) -> list[Identity]:
    """Return the identity of each of `records` (columns as `records.ARRIVALS`), row by row."""
    received = _as_texts(received_at(records))
    sent = _as_texts(records.column("timestamp"))
    escaped = [v and v.encode("ascii", "backslashreplace").decode() for v in versions]
    return [Identity(*each) for each in zip(ids, names, escaped, received, sent, strict=True)]


def _as_texts(times: pa.Array) -> list[str | None]:
    # By Arrow, because a header may name a year before 1 or after 9999, which Python does not support.
    return [time and time.replace(" ", "T") for time in times.cast(pa.string()).to_pylist()]
