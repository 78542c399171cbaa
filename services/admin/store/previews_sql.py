"""Previews in a destination database: samples are staged for the writer, whose answer is read and removed."""

import time
from typing import Any, Final, NamedTuple

import orjson

from services.admin.attempts import Destination
from services.admin.store.staging_sql import in_destination

#: Seconds between two reads of the answer; the writer looks for staged previews each second.
_POLL_SECONDS: Final = 0.2
_STAGE: Final = """
    INSERT INTO onramp.previews (schema_name, table_name, unknown_fields, fields, samples)
    VALUES (%s, %s, %s, %s, %s) RETURNING id::text
"""
_READ: Final = "SELECT answer::text FROM onramp.previews WHERE id = %s"
_FORGET: Final = "DELETE FROM onramp.previews WHERE id = %s"


class Preview(NamedTuple):
    """A table and samples of events for it; `fields`: the schema whose columns are added first, if any."""

    schema: str
    table: str
    unknown_fields: str
    fields: dict[str, Any] | None
    samples: list[str]


def answer_of(where: Destination, preview: Preview, seconds: float) -> dict[str, Any] | None:
    """Return the writer's answer; None if it gives none within `seconds`.  Raises `InfrastructureError`."""
    fields = None if preview.fields is None else orjson.dumps(preview.fields).decode()
    values = (preview.schema, preview.table, preview.unknown_fields, fields, preview.samples)
    with in_destination(where) as cur:
        cur.execute(_STAGE, values)
        ((number,),) = cur.fetchall()
    until = time.monotonic() + seconds
    answer: str | None = None
    while answer is None and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        with in_destination(where) as cur:
            cur.execute(_READ, (number,))
            answer = (cur.fetchone() or (None,))[0]
    with in_destination(where) as cur:
        cur.execute(_FORGET, (number,))
    return None if answer is None else dict(orjson.loads(answer))
