"""The OpenAPI document of the admin service: answers, headers and keys that FastAPI cannot derive."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI

from services.admin.api.problems import MEDIA_TYPE
from services.admin.api.rights import OPEN, need_of
from shared.errors import IF_MATCH_MISSING

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "fix"],
    "properties": {
        "type": {"type": "string", "description": "/errors/ and the code, as docs/errors.md lists it."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "fix": {"type": "string"},
        "links": {
            "type": "array",
            "items": {"type": "string", "description": "A page of the documentation, and its section."},
        },
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["place", "detail"],
                "properties": {"place": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}
_SAID: Final[Mapping[int, str]] = {
    400: "The request cannot be read, its cursor is none, or its set has no filter.",
    401: "No valid key was given.",
    403: "The key may not do this.",
    404: "There is nothing of this id or name that the key may see.",
    409: "It conflicts with the present state; `detail` says why.",
    410: "The bytes are not there any more.",
    412: "If-Match names another state than is in force.",
    413: "The body is too large.",
    422: "A parameter or the body is wrong; `errors` names the places.",
    428: "If-Match is missing.",
    429: "Too many requests of this operator at once; see Retry-After.",
    500: "The service failed.",
    503: "A database, Kafka or the store cannot be reached; see Retry-After.",
}
#: Every operation with a key can have these.
_ALWAYS: Final = (401, 403, 422, 429, 500, 503)
_CHANGE: Final = (409, 412)
#: Further statuses of an operation.
_MORE: Final[Mapping[str, tuple[int, ...]]] = {
    "PATCH /v1/groups": (404, 412),
    "PATCH /v1/groups/{number}": (412, 428),
    "POST /v1/events/{number}/reveal": (410,),
    "POST /v1/jobs": (404, 409),
    "POST /v1/edits": (410,),
    "PUT /v1/registry": (*_CHANGE, 428),
    "PUT /v1/types/{name}": (*_CHANGE, 428),
    "DELETE /v1/types/{name}": (*_CHANGE, 428),
    "POST /v1/keys": _CHANGE,
    "POST /v1/keys/{name}/rotate": _CHANGE,
    "POST /v1/keys/{name}/revoke": _CHANGE,
    "GET /v1/destinations/check": (404,),
    "POST /v1/topics": (409,),
    "PATCH /v1/topics/{name}": (409,),
    "POST /v1/types/infer": (404,),
    "POST /v1/audits": (409,),
    "POST /v1/transforms/{name}/deploy": (*_CHANGE, 428),
    "POST /v1/transforms/{name}/rollback": (*_CHANGE, 428),
    "POST /v1/transforms/{name}/pause": (412,),
    "POST /v1/transforms/{name}/resume": (412,),
    "POST /v1/holds/resume": (404, *_CHANGE, 428),
    "POST /v1/holds/dead-letter": (404, *_CHANGE, 428),
    "POST /v1/databases/{name}/resolve": (*_CHANGE, 428),
    "POST /v1/partitions/resolve": (*_CHANGE, 428),
}
#: Members of an answer's object, with their types; `?` for one that may be null.
_SHAPES: Final[Mapping[str, str]] = {
    "GET /healthz": "status:string",
    "GET /readyz": "ingester:string",
    "GET /v1/groups": "groups:array next:string? states:object",
    "PATCH /v1/groups": "groups:array",
    "GET /v1/groups/{number}": "id:integer state:string events:integer cause:object samples:array",
    "PATCH /v1/groups/{number}": "id:integer state:string events:integer cause:object samples:array",
    "GET /v1/counts": "counts:array",
    "GET /v1/events": "events:array next:string?",
    "GET /v1/events/{number}": "id:integer state:string topic:string reason:object",
    "GET /v1/segments": "parts:array next:string?",
    "GET /v1/audit-log": "acts:array next:string?",
    "GET /v1/statement": "adds_up:boolean complete:boolean topics:array differences:array unevaluated:array",
    "POST /v1/jobs": "kind:string",
    "GET /v1/jobs": "jobs:array next:string?",
    "GET /v1/jobs/{number}": "id:integer kind:string state:string results:array",
    "POST /v1/jobs/{number}/cancel": "id:integer kind:string state:string results:array",
    "POST /v1/recheck": "checked:integer lost:array staged:integer unreached:object next:integer?",
    "POST /v1/edits": "edits:integer events:integer",
    "GET /v1/registry": "",
    "GET /v1/registry/history": "history:array next:string?",
    "GET /v1/types": "types:array next:string?",
    "GET /v1/types/{name}": "",
    "GET /v1/types/{name}/versions": "versions:array",
    "GET /v1/keys": "keys:array",
    "GET /v1/destinations": "destinations:array",
    "GET /v1/destinations/check": "holds:boolean facts:array",
    "GET /v1/access": "may:boolean lines:array",
    "GET /v1/journey/{id}": "subject:string is_known:boolean sentence:string steps:array unknown:array",
    "GET /v1/topics": "topics:array next:string?",
    "GET /v1/topics/{name}/sample": "topic:string records:array complete:boolean",
    "POST /v1/topics": "topic:string created:boolean partitions:integer replication:integer config:object",
    "PATCH /v1/topics/{name}": "topic:string dry_run:boolean",
    "GET /v1/groups/{number}/good": "good:object? searched:integer",
    "POST /v1/destinations/check": "holds:boolean facts:array",
    "GET /v1/types/{name}/first-row": "table:string? row:object?",
    "POST /v1/types/infer": "name:string topic:string? schema:object columns:array samples:integer",
    "POST /v1/previews": "state:string detail:string table:object ddl:array facts:array samples:array",
    "POST /v1/audits": "id:integer state:string report:object?",
    "GET /v1/audits": "audits:array",
    "GET /v1/audits/{number}": "id:integer state:string report:object?",
    "POST /v1/audits/{number}/cancel": "id:integer state:string report:object?",
    "GET /v1/waiting": "holds:array databases:array unsettled:array unsettled_at:string? problems:array "
    "is_whole:boolean",
    "GET /v1/holds": "holds:array unreached:object",
    "POST /v1/holds/resume": "hold:object? events:integer dry_run:boolean",
    "POST /v1/holds/dead-letter": "hold:object? events:integer dry_run:boolean",
    "GET /v1/databases": "databases:array",
    "POST /v1/databases/{name}/resolve": "database:string resolution:string dry_run:boolean",
    "GET /v1/partitions": "partitions:array",
    "POST /v1/partitions/resolve": "partition:string resolution:string dry_run:boolean",
    "GET /v1/sources": "sources:array unreached:object",
    "GET /v1/sources/{name}/check": "holds:boolean facts:array",
    "GET /v1/sources/{name}/sql": "sql:string",
    "GET /v1/transforms": "transforms:array",
    "GET /v1/transforms/{name}": "name:string source:string? versions:array",
    "GET /v1/transforms/{name}/versions": "versions:array",
    "POST /v1/transforms/{name}/pause": "name:string state:string dry_run:boolean",
    "POST /v1/transforms/{name}/resume": "name:string state:string dry_run:boolean",
}
#: Members of every answer to a change of the registry.
_CHANGED: Final = "state:string reason:string changes:array findings:array ddl:array"
_ETAG: Final = {"ETag": {"schema": {"type": "string"}, "description": "By which a change names this state."}}
_WITH_ETAG: Final = frozenset(
    {"/v1/groups/{number}", "/v1/registry", "/v1/types", "/v1/types/{name}", "/v1/keys"}
)
_OTHER_BODIES: Final = {
    "GET /metrics": "text/plain",
    "POST /v1/events/{number}/reveal": "application/octet-stream",
    "POST /v1/download": "application/x-ndjson",
}


def describe(app: FastAPI) -> None:
    """Add rights, answers and headers to the application's OpenAPI document."""
    generate = app.openapi
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if made:
            return made
        document = generate()
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _complete(f"{method.upper()} {path}", path, operation)
        components = document.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = _PROBLEM
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        made.update(document)
        return made

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(name: str, path: str, operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    answers.pop("422", None)  # FastAPI's own form of it
    [status] = [code for code in answers if code.startswith("2")]
    answers[status]["content"] = _content(name)
    if path in _WITH_ETAG and not name.startswith("DELETE"):
        answers[status]["headers"] = _ETAG
    if name in OPEN:
        operation["security"] = []
        problems: tuple[int, ...] = (403, 500)
        if name == "GET /readyz":
            answers["503"] = {"description": "It is not ready.", "content": _content(name)}
    else:
        need = need_of(name)
        operation["security"] = [{"key": []}]
        whose = " for all events" if need.all_events else ""
        text = f"Needs a key of the role {need.role} or above{whose}, once there are operators."
        operation["description"] = "\n\n".join(filter(None, (operation.get("description"), text)))
        problems = (*_ALWAYS, *_of_parameters(operation, path), *_MORE.get(name, ()))
    answers |= {str(code): _problem(_SAID[code]) for code in sorted(set(problems))}
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == "If-Match":
            parameter["required"] = IF_MATCH_MISSING.status in problems
            parameter["schema"] = {"type": "string"}
        if parameter["name"] == "If-None-Match":
            parameter["schema"] = {"type": "string"}


def _of_parameters(operation: Mapping[str, Any], path: str) -> tuple[int, ...]:
    """Return the error statuses that an operation's parameters can cause."""
    found: list[int] = [404] if "{" in path else []
    if any(each["name"] == "cursor" for each in operation.get("parameters", ())):
        found.append(400)
    if "requestBody" in operation:
        found += [400, 413]
    return tuple(found)


def _content(name: str) -> dict[str, Any]:
    if kind := _OTHER_BODIES.get(name):
        return {kind: {"schema": {"type": "string"}}}
    members = [each.split(":") for each in _SHAPES.get(name, _CHANGED).split()]
    properties = {member: {"type": _types(kind)} for member, kind in members}
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return {"application/json": {"schema": schema}}


def _types(kind: str) -> str | list[str]:
    return [kind.removesuffix("?"), "null"] if kind.endswith("?") else kind


def _problem(description: str) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}
