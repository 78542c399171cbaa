"""Errors as pages: what failed, why, and what to do; the text comes from the error table."""

import logging
from collections.abc import Callable
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from services.admin.ui.headers import HEADERS
from services.admin.ui.view import PageView
from shared.errors import (
    BAD_QUERY,
    BAD_REQUEST,
    INTERNAL_ADMIN,
    METHOD_NOT_ALLOWED,
    NOT_ALLOWED,
    NOT_STORED,
    Fault,
    InfrastructureError,
    OnrampError,
)

log = logging.getLogger(__name__)

_BY_STATUS: Final = {404: NOT_STORED, 405: METHOD_NOT_ALLOWED}
_UNAVAILABLE: Final = 503


def add_errors(app: FastAPI, on_refusal: Callable[[Request], None]) -> None:
    """Make the pages of `app` answer errors; `on_refusal` records refusals in the audit log."""

    def of_ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, OnrampError)  # noqa: S101 - it is registered for it
        try:
            if error.fault in {NOT_ALLOWED, NOT_STORED}:
                on_refusal(request)
        except InfrastructureError as e:
            return error_page(request, e.fault, e.detail)
        return error_page(request, error.fault, error.detail)

    app.add_exception_handler(OnrampError, of_ours)
    app.add_exception_handler(RequestValidationError, _of_parameters)
    app.add_exception_handler(ValidationError, _of_parameters)
    app.add_exception_handler(HTTPException, _of_starlette)
    app.add_exception_handler(Exception, _unforeseen)


def error_page(request: Request, fault: Fault, detail: str, status: int | None = None) -> Response:
    """Return the page of an error."""
    view = PageView(request.app.state.shell, request, getattr(request.state, "session", None))
    code = status or fault.status or _UNAVAILABLE
    answer = view.page("error.html", title=fault.title.rstrip("."), status=code, fault=fault, detail=detail)
    if code in {429, _UNAVAILABLE}:
        answer.headers["retry-after"] = "2"
    return answer


def _of_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError | ValidationError)  # noqa: S101 - registered for these
    wrong = [f"{'/'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    return error_page(request, BAD_QUERY, "; ".join(wrong))


def _of_starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for it
    fault = _BY_STATUS.get(error.status_code, BAD_REQUEST)
    detail = "There is no such page." if fault is NOT_STORED else str(error.detail)
    return error_page(request, fault, detail, error.status_code)


def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("page failed with an unexpected error", exc_info=error)
    answer = error_page(request, INTERNAL_ADMIN, type(error).__name__)
    # This answer is sent outside of the guard.
    answer.raw_headers += HEADERS
    return answer
