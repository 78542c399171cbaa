"""The route that infers the columns of an event type."""

from typing import Any

from fastapi import FastAPI

from services.admin.api.rights import Asking
from services.admin.registry_api.changes import require_there
from services.admin.samples_api.newest import newest_records
from services.admin.samples_api.schemas import InferRequest
from services.ops.registry.inference import inferred_from
from services.ops.registry.registry_reader import RegistryReader
from services.ops.registry.topic_owners import events_of


def add_infer(app: FastAPI, desk: RegistryReader) -> None:
    """Add the route."""

    @app.post("/v1/types/infer")
    def infer_type(asked: InferRequest, asking: Asking) -> dict[str, Any]:
        """The JSON Schema that samples have in common, and the columns of a table for it; no values."""
        require_there(asking.sees(asked.name), "event type")
        topic, is_shared = None, False
        texts: list[bytes | str | None] = list(asked.samples or ())
        if asked.samples is None:
            snapshot = desk.read().snapshot
            topic = snapshot.topic_of(asked.name)
            is_shared = not asking.sees(*events_of(snapshot, topic))
            texts = [record.value for record in newest_records(desk, topic, asked.last)]
        found = inferred_from(texts, asked.name, of_events_only=is_shared)
        return {"name": asked.name, "topic": topic, **found._asdict()}
