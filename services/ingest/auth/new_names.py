"""How many event names that nobody registered one key may use: each becomes a topic.

A producer that puts an id into its event names would otherwise make topics until Kafka
falls over.  Counted per process, in memory: a limit on damage, not an account.
"""

from typing import Final

from services.ingest.auth.api_keys import Sender
from shared.errors import TOO_MANY_NAMES, UserError

#: For the development profile without keys.
_ANONYMOUS_CAP: Final = 1000


class NewNameLimit:
    """The names each sender has used."""

    def __init__(self) -> None:
        self._used: dict[str, set[str]] = {}

    def admit(self, sender: Sender, name: str) -> None:
        """Let a name pass if it was used before or there is room.  Raises `UserError` otherwise."""
        used = self._used.setdefault(sender.name, set())
        if name in used:
            return
        cap = _ANONYMOUS_CAP if sender.key is None else sender.key.max_new_names
        if len(used) >= cap:
            raise UserError(TOO_MANY_NAMES, f"the limit is {cap} unregistered event names", "/event_name")
        used.add(name)
