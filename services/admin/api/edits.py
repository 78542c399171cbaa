"""The routes of events as files: a set is downloaded, edited with anything, and sent back for a job."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, BinaryIO, Final

from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from services.admin.api.operators import Caller
from services.admin.api.queries import Actor, DownloadRequest
from services.admin.api.rights import Asking
from services.admin.segments.folder import Segments
from services.admin.store import edits_sql
from services.admin.store.control_sql import transaction
from services.admin.store.read_sql import record_act
from shared.errors import BAD_EDITS, BAD_REQUEST, NO_FILTER, OnrampError, UserError

log = logging.getLogger(__name__)

NDJSON: Final = "application/x-ndjson"
#: Maximum bytes of an uploaded file; beyond the first limit the file is on disk.
MAX_BYTES: Final = 1 << 30
_IN_MEMORY: Final = 1 << 20
_LINES: Final = {
    "requestBody": {
        "required": True,
        "description": "A line for each event, as a download has it.",
        "content": {NDJSON: {"schema": {"type": "string"}}},
    }
}


def add_edits(app: FastAPI, dsn: str, segments: Segments | None) -> None:
    """Add the routes."""

    @app.post("/v1/download", response_class=StreamingResponse)
    def download(asked: DownloadRequest, asking: Asking) -> StreamingResponse:
        """Events as lines, to be edited; the audit log first records who reads them and why.

        Each event is a line.  The header `onramp-events` holds their number, which reveals a truncated file.
        """
        actor = asking.acting(asked.actor)
        filters = asked.filters.model_dump(exclude_none=True)
        if not filters:
            raise UserError(NO_FILTER, "filters: at least one is required")
        if asking.only is not None:
            filters |= {"only": asking.only}
        with transaction(dsn) as conn:
            events = edits_sql.ids(conn, {**filters, "state": asked.state})
            if len(events) > edits_sql.MAX_EVENTS:
                raise UserError(
                    NO_FILTER, f"more than {edits_sql.MAX_EVENTS:,} events match: narrow the filters"
                )
            named = f"{len(events)} events ({min(events, default=0)} to {max(events, default=0)})"
            record_act(conn, actor, "download", named, asked.reason)
        headers = {
            "onramp-events": str(len(events)),
            "content-disposition": 'attachment; filename="events.ndjson"',
        }
        return StreamingResponse(_lines(dsn, segments, events), media_type=NDJSON, headers=headers)

    @app.post("/v1/edits", status_code=201, max_body_size=2 * MAX_BYTES, openapi_extra=_LINES)
    async def keep_edits(request: Request, asking: Asking, by: Annotated[Actor, Query()]) -> dict[str, Any]:
        """Store edited payloads, one a line, for jobs with the filter `edits`; none if a line is wrong."""
        actor = asking.acting(by.actor)
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            size = 0
            try:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > MAX_BYTES:
                        raise UserError(
                            BAD_EDITS, f"the file has more than {MAX_BYTES:,} bytes: send it in parts"
                        )
                    await run_in_threadpool(file.write, chunk)
            except ClientDisconnect:
                raise UserError(BAD_REQUEST, "the body ended early") from None
            file.seek(0)
            return await run_in_threadpool(_keep, dsn, segments, file, actor, asking)  # type: ignore[arg-type]


def _keep(dsn: str, segments: Segments | None, file: BinaryIO, actor: str, asking: Caller) -> dict[str, Any]:
    with transaction(dsn) as conn:
        upload, count = edits_sql.keep(conn, segments, file, actor, asking.only)
        record_act(conn, actor, "edit", f"{count} events as edits {upload}", None)
    return {"edits": upload, "events": count}


def _lines(dsn: str, segments: Segments | None, events: Sequence[int]) -> Iterator[bytes]:
    """Yield the lines of events, a page at a time; a truncated file has fewer lines than its header says."""
    try:
        with transaction(dsn) as conn:
            pages = list(edits_sql.pages(conn, events))
        for page in pages:
            with transaction(dsn) as conn:
                found = edits_sql.lines(conn, segments, page)
            yield from found
    except OnrampError as e:
        log.warning("download ended early", extra={"reason": e.detail})
