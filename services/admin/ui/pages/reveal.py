"""The bytes of an event: shown once after a reason, which the audit log has before."""

from fastapi.responses import Response

from services.admin.api.queries import Id, Reveal
from services.admin.ui.formats import command
from services.admin.ui.routes import Ui
from services.admin.ui.view import Question, View


def add(ui: Ui) -> None:
    """Add the routes.  The page of the bytes has no poll, so that no poll reads them again."""

    @ui.get("/events/{number}/reveal")
    def ask(view: View, number: Id) -> Response:
        event = view.call("GET /v1/events/{number}", number=number).document
        return view.confirm(
            title=f"Reveal event {number}?",
            effect=f"Shows the {event['size']:,} bytes of event {number} as they are, once. "
            "The audit log first records your name, the time and the reason.",
            button="Reveal the event",
            action=f"/events/{number}/reveal",
            back=f"/groups/{event['group']}",
            nav="parked",
            cli=_command(number),
            asks=[Question("reason", "Reason (it is logged)", is_required=True)],
        )

    @ui.post("/events/{number}/reveal")
    def reveal(view: View, number: Id) -> Response:
        wanted = Reveal(actor=view.actor, reason=view.form.get("reason", ""))
        event = view.call("GET /v1/events/{number}", number=number).document
        value = view.call("POST /v1/events/{number}/reveal", number=number, wanted=wanted).document
        text = value.decode("utf-8", "backslashreplace")
        return view.page(
            "reveal.html",
            title=f"Event {number}",
            nav="parked",
            cli=_command(number),
            event=event,
            text=text,
        )


def _command(number: int) -> str:
    return command("onramp errors show", number, "--value", reason="to see the amount")
