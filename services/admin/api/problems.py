"""Errors of the API as RFC 9457 problem+json, made from the error table; they never contain a sent value."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from shared.errors import (
    BAD_QUERY,
    BAD_REQUEST,
    BODY_TOO_LARGE,
    INTERNAL_ADMIN,
    METHOD_NOT_ALLOWED,
    NOT_ALLOWED,
    NOT_STORED,
    Fault,
    InfrastructureError,
    OnrampError,
    UserError,
)
from shared.fix_links import pages_in

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
#: Additional headers by status.
_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"www-authenticate": "Bearer"},
    _TOO_MANY: {"retry-after": "2"},
    _UNAVAILABLE: {"retry-after": "2"},
}
#: Records a refusal in the audit log.
OnRefusal = Callable[[Request], None]
_BY_STATUS: Final = {404: NOT_STORED, 405: METHOD_NOT_ALLOWED, 413: BODY_TOO_LARGE}


class RefusalError(UserError):
    """An error whose answer has further members."""

    def __init__(self, fault: Fault, detail: str, **more: Any) -> None:
        super().__init__(fault, detail)
        self.more = more


def answer_with_problems(app: FastAPI, on_refusal: OnRefusal) -> None:
    """Make `app` answer every error as a problem; call `on_refusal` first for refusals."""

    def of_ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, OnrampError)  # noqa: S101 - it is registered for it
        try:
            if error.fault in {NOT_ALLOWED, NOT_STORED}:
                on_refusal(request)
        except InfrastructureError as e:
            return problem(e.fault, e.detail)
        return problem(error.fault, error.detail, **(error.more if isinstance(error, RefusalError) else {}))

    app.add_exception_handler(OnrampError, of_ours)
    app.add_exception_handler(RequestValidationError, _of_parameters)
    app.add_exception_handler(HTTPException, _of_starlette)
    app.add_exception_handler(Exception, _unforeseen)


def problem(fault: Fault, detail: str, status: int | None = None, **more: Any) -> JSONResponse:
    """Return the problem document: title, detail and fix."""
    document = {
        "type": f"/errors/{fault.code}",
        "title": fault.title,
        "status": status or fault.status or _UNAVAILABLE,
        "detail": detail,
        "fix": fault.fix,
        **({"links": links} if (links := pages_in(fault.fix)) else {}),
        **more,
    }
    headers = _HEADERS.get(document["status"])
    return JSONResponse(document, document["status"], headers, media_type=MEDIA_TYPE)


def not_stored(what: str) -> UserError:
    """Return the error for an object that does not exist."""
    return UserError(NOT_STORED, f"there is no {what} of this id")


def _of_parameters(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - it is registered for it
    errors = [{"place": "/".join(map(str, e["loc"])), "detail": str(e["msg"])} for e in error.errors()]
    return problem(BAD_QUERY, f"{len(errors)} wrong", errors=errors)


def _of_starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for it
    fault = _BY_STATUS.get(error.status_code, BAD_REQUEST)
    answer = problem(fault, fault.title, error.status_code)
    if fault is METHOD_NOT_ALLOWED:
        answer.headers["allow"] = ", ".join(sorted(_methods(request)))
    return answer


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes of a path; each route knows only its own."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches({**request.scope, "method": "OPTIONS"})[0] is not Match.NONE:
            found |= route.methods or set()
    return found


def _unforeseen(_: Request, error: Exception) -> Response:
    log.error("request failed with an unexpected error", exc_info=error)
    return problem(INTERNAL_ADMIN, type(error).__name__)
