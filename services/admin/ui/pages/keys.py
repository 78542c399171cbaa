"""Keys of senders: create, rotate and revoke; a secret is shown once, on the page that answers the form."""

from shlex import quote
from typing import Annotated, Final

import orjson
from fastapi import Path
from fastapi.responses import Response

from services.admin.api.queries import State
from services.admin.registry_api.schemas import RotateSaid, Said
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View

_Name = Annotated[str, Path(max_length=32)]
_EFFECTS: Final = {
    "rotate": "It gets a new secret, which is shown once. The old secrets are valid for 24 more hours.",
    "revoke": "Its senders are refused within two seconds. This cannot be undone.",
}


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/keys")
    def list_keys(view: View) -> Response:
        found = view.call("GET /v1/keys")
        return view.page(
            "keys.html",
            title="Keys",
            nav="keys",
            cli="onramp keys list",
            keys=found.document["keys"],
            etag=found.tag,
            may_change=view.may("POST /v1/keys"),
        )

    @ui.post("/keys")
    def create_key(view: View) -> Response:
        patterns = [each for each in view.form.get("events", "").split() if each]
        document = orjson.dumps({"name": view.form.get("name", ""), "events": patterns})
        said = Said(reason=view.form.get("reason", ""), actor=view.actor)
        found = view.call("POST /v1/keys", given=document, said=said, state=_state(view)).document
        return _show(view, found["name"], found.get("key", ""))

    @ui.get("/keys/{name}/{act}")
    def ask_change(view: View, name: _Name, act: str) -> Response:
        if act not in _EFFECTS:
            return view.go("/keys")
        named = quote(name)
        return view.confirm(
            title=f"{act.capitalize()} the key {name}?",
            effect=_EFFECTS[act],
            button=act.capitalize(),
            action=f"/keys/{name}/{act}",
            back="/keys",
            nav="keys",
            cli=f"onramp keys rotate {named}" if act == "rotate" else f"onramp keys revoke {named}",
            fields={"etag": view.call("GET /v1/keys").tag},
            ask=("reason", "Reason, stored with the change"),
            is_danger=act == "revoke",
        )

    @ui.post("/keys/{name}/rotate")
    def rotate_key(view: View, name: _Name) -> Response:
        said = RotateSaid(reason=view.form.get("reason", ""), actor=view.actor)
        operation = "POST /v1/keys/{name}/rotate"
        found = view.call(operation, name=name, said=said, state=_state(view)).document
        return _show(view, name, found.get("key", ""))

    @ui.post("/keys/{name}/revoke")
    def revoke_key(view: View, name: _Name) -> Response:
        said = Said(reason=view.form.get("reason", ""), actor=view.actor)
        view.call("POST /v1/keys/{name}/revoke", name=name, said=said, state=_state(view))
        return view.go("/keys")


def _state(view: PageView) -> State:
    return State([view.form.get("etag", "")])


def _show(view: PageView, name: str, secret: str) -> Response:
    """Return the page with the secret; no other page has it, and none is stored."""
    return view.page("key.html", title=f"The key {name}", nav="keys", name=name, secret=secret)
