"""The limit of unregistered event names per key: each name becomes a topic.

A producer that puts an id into its event names would otherwise create topics until Kafka
fails. Counted per process, in memory: a limit on damage, not exact accounting.
"""

from typing import Final

from services.ingest.auth.api_keys import Sender
from shared.errors import TOO_MANY_NAMES, UserError

#: For the development profile without keys.
_ANONYMOUS_LIMIT: Final = 1000


class NewNameLimit:
    """The unregistered names that each sender has used, and the limit of them."""

    def __init__(self) -> None:
        self._used: dict[str, set[str]] = {}

    def admit(self, sender: Sender, name: str) -> None:
        """Count a new name of a sender.  Raises `UserError` TOO_MANY_NAMES at the sender's limit."""
        used = self._used.setdefault(sender.name, set())
        if name in used:
            return
        limit = _ANONYMOUS_LIMIT if sender.key is None else sender.key.max_new_names
        if len(used) >= limit:
            raise UserError(TOO_MANY_NAMES, f"the limit is {limit} unregistered event names", "/event_name")
        used.add(name)
