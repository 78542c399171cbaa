"""The OpenAPI description of `POST /v1/events`, which FastAPI does not route (see `asgi.py`)."""

from typing import Any, Final

from fastapi import FastAPI

_ENVELOPE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["metadata", "event_name", "payload"],
    "additionalProperties": False,
    "properties": {
        "metadata": {
            "type": "object",
            "required": ["id", "timestamp", "version"],
            "properties": {
                "id": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
                "timestamp": {"type": "string", "format": "date-time"},
                "version": {"type": "string", "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]{1,32}$"},
            },
        },
        "event_name": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,62}$"},
        "payload": {"type": "object"},
    },
    "example": {
        "metadata": {"id": "order-1001", "timestamp": "2026-11-21T08:00:00Z", "version": "1"},
        "event_name": "order_placed",
        "payload": {"amount": 12.5},
    },
}

_CLOUDEVENTS: Final[dict[str, Any]] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object"},
    "description": "CloudEvents allows an empty batch: the gateway rejects it with 400, and `[null]` with "
    "422.",
}

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "pointer", "fix", "accepted", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "pointer": {"type": "string", "description": "JSON Pointer to the value at fault"},
        "fix": {"type": "string"},
        "accepted": {
            "type": ["boolean", "null"],
            "description": "false: not on Kafka. null: unknown, send it again with the same id.",
        },
        "step": {"type": "string"},
        "request_id": {"type": "string"},
        "results": {"type": "array", "description": "of a batch: one entry per event"},
    },
}

_PROBLEMS: Final = {
    "400": "The body is not strict JSON, or has no event: an array must have one, of CloudEvents too.",
    "401": "The API key is missing or not valid.",
    "403": "The API key may not send this, or a foreign web page sent it without one.",
    "408": "The request took too long to arrive.",
    "413": "The body, the batch or an event is too large.",
    "415": "The content type or encoding is not supported.",
    "422": "No event was accepted, as of `[null]`: each item of an array must be an object.",
    "429": "The API key's quota is used up; see Retry-After.",
    "431": "The headers are too large.",
    "500": "The gateway failed.",
    "503": "Kafka did not acknowledge in time, or too much is in flight; see Retry-After.",
}


def describe_events(app: FastAPI) -> None:
    """Add the path to the application's OpenAPI document."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        document["paths"]["/v1/events"] = {"post": _operation()}
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(Envelope=_ENVELOPE, Problem=_PROBLEM)
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _operation() -> dict[str, Any]:
    envelope = {"$ref": "#/components/schemas/Envelope"}
    body = {"oneOf": [envelope, {"type": "array", "items": envelope, "minItems": 1}]}
    return {
        "tags": ["events"],
        "summary": "Send one event or a batch",
        "description": "202 means that Kafka has acknowledged the event from all in-sync replicas.",
        "operationId": "send_events",
        # Without keys the dev profile accepts events from every sender.
        "security": [{"key": []}, {}],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": body},
                "application/x-ndjson": {"schema": {"type": "string"}},
                "application/cloudevents+json": {"schema": {"type": "object"}},
                "application/cloudevents-batch+json": {"schema": _CLOUDEVENTS},
            },
        },
        "responses": {
            "202": {"description": "All events are on Kafka.", "content": _json({"type": "object"})},
            "207": {"description": "Some are; `results` says which.", "content": _json({"type": "object"})},
            **{status: _problem(description) for status, description in _PROBLEMS.items()},
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _problem(description: str) -> dict[str, Any]:
    problem = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {"application/problem+json": {"schema": problem}}}
