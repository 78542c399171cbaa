"""Login with an operator's key or a link that is valid once, and logout."""

from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from services.admin.ui.guard import cookie_name, own_path
from services.admin.ui.login_page import FIELD, login_page
from services.admin.ui.routes import Ui
from services.admin.ui.sessions import LINK_SECONDS, SECONDS, Session
from services.admin.ui.view import PageView, View
from shared.errors import InfrastructureError, OnrampError, UserError

_SEE_OTHER: Final = 303


def add_login(ui: Ui) -> None:
    """Add the routes."""
    sessions = ui.shell.sessions

    @ui.get("/login")
    def show_login(view: View) -> Response:
        return login_page(view, following=own_path(view.query.get("next", "")))

    @ui.post("/login")
    def log_in(view: View) -> Response:
        try:
            session = sessions.log_in(view.form.get("key", "").strip(), _address(view.request))
        except OnrampError as e:
            return _login_again(view, e)
        return _logged_in(view, session)

    @ui.get("/login/link")
    def show_link(view: View) -> Response:
        return view.page("login_link.html", title="Log in", link=view.query.get("token", ""), problem="")

    @ui.post("/login/link")
    def use_link(view: View) -> Response:
        try:
            session = sessions.use_link(view.form.get("link", ""), _address(view.request))
        except OnrampError as e:
            status = e.fault.status or 503
            return view.page("login_link.html", title="Log in", link="", problem=e.detail, status=status)
        return _logged_in(view, session)

    @ui.post("/logout")
    def log_out(view: View) -> Response:
        sessions.end(view.request.cookies.get(cookie_name(view.request), ""))
        answer = RedirectResponse("/ui/login", _SEE_OTHER)
        is_secure = view.request.url.scheme == "https"
        answer.delete_cookie(
            cookie_name(view.request), path="/", secure=is_secure, httponly=True, samesite="strict"
        )
        return answer

    @ui.app.post("/login/links")
    async def make_link(request: Request) -> Response:
        """Return a login link for the holder of the key in `Authorization`; `onramp up` prints it."""
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        session = await run_in_threadpool(sessions.log_in, key, _address(request))
        link = f"/ui/login/link?token={sessions.new_link(session)}"
        return JSONResponse({"path": link, "seconds": LINK_SECONDS})


def _login_again(view: PageView, error: OnrampError) -> Response:
    problem = (
        f"{error.fault.title} {error.fault.fix}"
        if isinstance(error, InfrastructureError)
        else _sentence_of(error)
    )
    return login_page(
        view,
        following=own_path(view.form.get("next", "")),
        problem=problem,
        action=view.form.get("action", ""),
        fields=[(name.removeprefix(FIELD), value) for name, value in view.fields if name.startswith(FIELD)],
        status=error.fault.status or 503,
    )


def _sentence_of(error: OnrampError) -> str:
    assert isinstance(error, UserError)  # noqa: S101 - the other kind was handled
    if "for sending" in error.detail:
        return "This key is for sending events. Use the key of an operator."
    return "This key is not valid. Use the key of an operator that is neither expired nor revoked."


def _logged_in(view: PageView, session: Session) -> Response:
    """Return the next page, or the form that was sent without a session, to be sent again."""
    action = view.form.get("action", "")
    answer: Response
    if action:
        with_session = PageView(view.shell, view.request, session)
        fields = [(name.removeprefix(FIELD), value) for name, value in view.fields if name.startswith(FIELD)]
        back = own_path(view.form.get("next", ""))
        answer = with_session.page(
            "resend.html", title="Send the form?", action=own_path(action), fields=fields, back=back
        )
    else:
        answer = RedirectResponse(own_path(view.form.get("next", "")), _SEE_OTHER)
    answer.set_cookie(
        cookie_name(view.request),
        view.shell.sessions.cookie(session),
        max_age=SECONDS,
        path="/",
        secure=view.request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
