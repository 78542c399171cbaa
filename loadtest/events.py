"""The events that benches send: 250 bytes each, as producers would write them."""

import gzip
import json

EVENT_BYTES = 250


def event(number: int, name: str) -> bytes:
    """Return an envelope of exactly `EVENT_BYTES` bytes, with an id of its own."""
    envelope = {
        "metadata": {"id": f"bench-{number:08d}", "timestamp": "2026-11-21T08:00:00Z", "version": "1"},
        "event_name": name,
        "payload": {"amount": 12.5, "currency": "EUR", "note": ""},
    }
    missing = EVENT_BYTES - len(json.dumps(envelope, separators=(",", ":")))
    envelope["payload"] = {"amount": 12.5, "currency": "EUR", "note": "x" * missing}
    return json.dumps(envelope, separators=(",", ":")).encode()


def bodies(form: str, batch: int, count: int, name: str) -> tuple[list[bytes], dict[str, str]]:
    """Return `count` request bodies of `batch` events each, and their headers.

    `form` is single, array or ndjson-gzip.
    """
    groups = [[event(batch * n + i, name) for i in range(batch)] for n in range(count)]
    if form == "single":
        return [group[0] for group in groups], {"Content-Type": "application/json"}
    if form == "array":
        return [b"[" + b",".join(group) + b"]" for group in groups], {"Content-Type": "application/json"}
    headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    return [gzip.compress(b"\n".join(group), 6) for group in groups], headers
