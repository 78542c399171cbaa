"""The login page, also in the middle of a form: its fields are sent after the login."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import Response

from services.admin.ui.view import PageView

#: Prefix of the fields of the form that was sent without a session.
FIELD: str = "field:"


def signed_out(request: Request, fields: Sequence[tuple[str, str]]) -> Response:
    """Return the page for a request without a session; `fields` are those of its form."""
    page = urlsplit(request.headers.get("referer", ""))
    back = page.path + (f"?{page.query}" if page.query else "")
    return login_page(
        PageView(request.app.state.shell, request, None),
        following=back if page.path.startswith("/ui/") else "/ui/",
        problem="Your session has ended. Log in again; the form is not lost.",
        action=request.url.path,
        fields=[(name, value) for name, value in fields if name != "token"],
        status=401,
    )


def login_page(
    view: PageView,
    *,
    following: str,
    problem: str = "",
    action: str = "",
    fields: Sequence[tuple[str, str]] = (),
    status: int = 200,
) -> Response:
    """Return the login page.

    Args:
        view: the request.
        following: the page after the login.
        problem: why the page is shown.
        action: where a form was sent without a session, or an empty text.
        fields: of that form.
        status: of the answer.
    """
    return view.page(
        "login.html",
        title="Log in",
        status=status,
        following=following,
        problem=problem,
        action=action,
        fields=[(FIELD + name, value) for name, value in fields],
    )
