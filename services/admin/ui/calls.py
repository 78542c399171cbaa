"""Calls the function behind a route of /v1 with the rights of a caller: pages and programs get the same."""

from collections.abc import Mapping
from inspect import iscoroutinefunction, signature
from typing import Any, NamedTuple

import orjson
from anyio import from_thread
from fastapi import FastAPI
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.datastructures import State

from services.admin.api.operators import Caller
from services.admin.api.rights import need_of
from shared.errors import NOT_ALLOWED, UserError


class Answer(NamedTuple):
    """An answer of the API: its document, and its headers in lower case."""

    document: Any
    headers: Mapping[str, str]

    @property
    def tag(self) -> str:
        """Return the ETag in quotes as If-Match expects it, or an empty text."""
        return self.headers.get("etag", "")


class Calls:
    """The functions of the routes of an application, by operation (`GET /v1/events`)."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    @property
    def state(self) -> State:
        """Return the state of the application: parts that no route has, such as figures."""
        return self._app.state

    def may(self, caller: Caller, operation: str) -> bool:
        """Return whether the caller has the rights for an operation."""
        need = need_of(operation)
        return caller.may(need.role) and not (need.all_events and caller.only is not None)

    def require(self, caller: Caller, operation: str) -> None:
        """Raise `UserError` NOT_ALLOWED unless the caller has the rights for an operation."""
        if not self.may(caller, operation):
            role = need_of(operation).role
            raise UserError(NOT_ALLOWED, f"{operation} needs the role {role}, and this key has {caller.role}")

    def call(self, caller: Caller, operation: str, **arguments: Any) -> Answer:
        """Call the function in this thread; its parameter `asking` is the caller.

        Raises `UserError` NOT_ALLOWED without the right, and what the function raises.
        """
        self.require(caller, operation)
        function = self._routes[operation].endpoint
        if "asking" in signature(function).parameters:
            arguments["asking"] = caller
        if iscoroutinefunction(function):
            return _answer(from_thread.run(lambda: function(**arguments)))
        return _answer(function(**arguments))

    @property
    def _routes(self) -> dict[str, APIRoute]:
        """Return the routes that exist now: those of the registry are added after the others."""
        return {
            f"{method} {route.path_format}": route
            for route in self._app.routes
            if isinstance(route, APIRoute)
            for method in route.methods or ()
        }


def _answer(result: Any) -> Answer:
    if not isinstance(result, Response):
        return Answer(result, {})
    headers = {name.lower(): value for name, value in result.headers.items()}
    is_json = "json" in headers.get("content-type", "")
    return Answer(orjson.loads(result.body) if is_json else bytes(result.body), headers)
