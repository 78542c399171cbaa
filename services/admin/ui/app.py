"""Builds the application of the pages and mounts it under /ui."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.middleware.gzip import GZipMiddleware

from services.admin.api.app import record_refusal
from services.admin.api.entry import UI_PATH
from services.admin.api.operators import Operators
from services.admin.api.rights import require_once
from services.admin.ui import pages
from services.admin.ui.calls import Calls
from services.admin.ui.errors import add_errors
from services.admin.ui.guard import Guard, require_form_token
from services.admin.ui.login import add_login
from services.admin.ui.routes import Ui
from services.admin.ui.sessions import Sessions
from services.admin.ui.static_files import StaticFiles
from services.admin.ui.stored_sessions import StoredSessions
from services.admin.ui.templates import environment
from services.admin.ui.view import Shell

_MIN_PACKED_BYTES: Final = 1_000


def add_ui(app: FastAPI, dsn: str, operators: Operators) -> None:
    """Mount the pages on the application of /v1, whose functions they call."""
    stored = StoredSessions(dsn)
    static = StaticFiles()
    sessions = Sessions(operators, stored)
    own = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(require_once), Depends(require_form_token)],
    )
    shell = Shell(environment(static), Calls(app), sessions, lambda: _paths(own))
    own.state.shell = shell
    ui = Ui(own, shell)
    own.add_middleware(Guard, sessions=sessions, turns=app.state.turns, refresh=stored.refresh)
    own.add_middleware(GZipMiddleware, minimum_size=_MIN_PACKED_BYTES, compresslevel=5)
    add_errors(own, lambda request: record_refusal(dsn, request))
    add_login(ui)

    @own.get("/static/{name}")
    def static_file(name: str, request: Request) -> Response:
        return static.answer(name, request)

    for module in sorted(each.name for each in iter_modules(pages.__path__)):
        import_module(f"{pages.__name__}.{module}").add(ui)
    if "/" not in _paths(own):

        @ui.get("/")
        def first_page() -> Response:
            return RedirectResponse(f"{UI_PATH}/jobs", 303)

    app.mount(UI_PATH, own)


def _paths(app: FastAPI) -> frozenset[str]:
    return frozenset(
        route.path for route in app.routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())
    )
