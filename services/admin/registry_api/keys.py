"""The routes of senders' keys: each action is one change of the registry; a secret is shown once."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from fastapi.responses import JSONResponse, Response

from services.admin.api.queries import StateIfGiven
from services.admin.api.rights import Asking
from services.admin.registry_api.changes import Act, Changes, answered, require_there, tagged
from services.admin.registry_api.schemas import (
    KeyName,
    NewKey,
    RotateSaid,
    Said,
    body,
    described,
    document_of,
    valid,
)
from services.ops.registry.change import Result
from services.ops.registry.change import State as Ended
from services.ops.registry.key_overlap import end_of_overlap
from services.ops.registry.registry_reader import RegistryReader
from services.ops.registry.sender_keys import (
    Keys,
    created,
    view_of,
    with_another_secret,
    without,
)
from shared.registry import ApiKey, Snapshot
from shared.registry.key_secrets import new_key


def add_keys(app: FastAPI, dsn: str, desk: RegistryReader) -> None:
    """Add the routes."""
    changes = Changes(dsn, desk)

    @app.get("/v1/keys")
    def list_keys() -> Response:
        """The senders' keys with their rights and expiry, without hashes."""
        seen = desk.read()  # never 304: secrets expire, and the registry stays the same
        return tagged(
            seen, {"keys": [view_of(name, key) for name, key in sorted(seen.snapshot.keys.items())]}
        )

    @app.post("/v1/keys", openapi_extra=described(NewKey))
    def create_key(
        given: Annotated[bytes, Depends(body())],
        said: Annotated[Said, Query()],
        state: StateIfGiven,
        asking: Asking,
    ) -> JSONResponse:
        """Create a sender's key and bring it into force: `key` is shown only now, and stored nowhere."""
        new = valid(NewKey, document_of(given))
        secret, sha256 = new_key(new.name)
        change = _of_keys(
            lambda keys: created(keys, new.name, sha256, events=new.events, destinations=new.destinations)
        )
        result, tag = changes.make(
            asking, Act("create key", f"key {new.name}", of_keys=True), said, state, change
        )
        return answered(result, tag, **_shown(new.name, secret, result))

    @app.post("/v1/keys/{name}/rotate")
    def rotate_key(
        name: KeyName, said: Annotated[RotateSaid, Query()], state: StateIfGiven, asking: Asking
    ) -> JSONResponse:
        """Give a key a new secret, which is shown only now; old ones expire after `overlap`."""
        until = end_of_overlap(said.overlap)
        secret, sha256 = new_key(name)
        change = _of_keys(lambda keys: with_another_secret(_there(keys, name), name, sha256, until))
        result, tag = changes.make(
            asking, Act("rotate key", f"key {name}", of_keys=True), said, state, change
        )
        return answered(result, tag, **_shown(name, secret, result))

    @app.post("/v1/keys/{name}/revoke")
    def revoke_key(
        name: KeyName, said: Annotated[Said, Query()], state: StateIfGiven, asking: Asking
    ) -> JSONResponse:
        """Revoke a key with all its secrets; it takes effect within two seconds."""
        change = _of_keys(lambda keys: without(_there(keys, name), name))
        result, tag = changes.make(
            asking, Act("revoke key", f"key {name}", of_keys=True), said, state, change
        )
        return answered(result, tag, name=name)


def _of_keys(change: Callable[[Keys], Mapping[str, ApiKey]]) -> Callable[[Snapshot], Snapshot]:
    return lambda before: Snapshot(keys=change(before.keys))


def _there(keys: Keys, name: str) -> Keys:
    require_there(name in keys, "key")
    return keys


def _shown(name: str, secret: str, result: Result) -> dict[str, Any]:
    """Return the document for the key's holder; without the secret if the key is not in force."""
    return {"name": name, "key": secret} if result.state is Ended.APPLIED else {"name": name}
