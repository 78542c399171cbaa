"""Prints the results of `onramp send` as they arrive, and determines its exit code."""

from typing import Any, Final

import orjson

from services.cli.exits import Exit

_KEY_REJECTED: Final = (401, 403)


class Receipts:
    """Prints each event's receipt or rejection; called by the client's threads."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._rejected = False
        self._unprinted: Exception | None = None
        #: The last answer about an abandoned event.
        self.dead_lettered: dict[str, Any] | None = None

    def __call__(self, event_id: str, outcome: str, answer: dict[str, Any]) -> None:
        """Print an event's result; store an abandoned event for the end."""
        if outcome == "unknown" and answer.get("status") not in _KEY_REJECTED:
            self.dead_lettered = self.dead_lettered or answer
            return
        self._rejected = self._rejected or outcome != "accepted"
        try:
            self._print(event_id, answer, accepted=outcome == "accepted")
        except Exception as error:  # noqa: BLE001 - raised again where it is heard
            self._unprinted = error

    def code(self, url: str) -> Exit:
        """Return the exit code, once all is sent.

        Raises:
            UnavailableError: the gateway did not answer in time.
        """
        from stack.gateway_errors import unavailable

        if self._unprinted is not None:
            raise self._unprinted
        if self.dead_lettered is not None:
            raise unavailable(url, self.dead_lettered)
        return Exit.FAILED if self._rejected else Exit.OK

    def _print(self, event_id: str, answer: dict[str, Any], *, accepted: bool) -> None:
        if self._as_json:
            result = answer if accepted else {"status": answer.get("status"), "error": answer}
            print(orjson.dumps({"id": event_id, **result}).decode())
        elif accepted:
            receipt = answer["receipt"]
            print(f"{event_id} accepted: {receipt['topic']} {receipt['partition']} {receipt['offset']}")
        else:
            problem = f"{answer.get('detail')} {answer.get('fix', '')}"
            print(f"{event_id} rejected ({answer.get('status')}): {problem}")
