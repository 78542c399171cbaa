"""Routes of pages: the decorators that every page uses."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from services.admin.ui.view import Shell


class Ui:
    """The application of the pages."""

    def __init__(self, app: FastAPI, shell: Shell) -> None:
        self.app = app
        self.shell = shell

    def get(self, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the handler of a page below /ui."""
        return self.app.get(path, response_model=None)

    def post(self, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the handler of a form; its token was checked."""
        return self.app.post(path, response_model=None)
