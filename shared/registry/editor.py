"""Changes the registry in its log: reads it whole, writes a change set, and reads back whether it counted."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from shared.errors import REGISTRY_CONFLICT, REGISTRY_UNREAD, InfrastructureError, UserError
from shared.registry.change_log import FORMAT, Chain, Ruling
from shared.registry.difference import Difference
from shared.registry.log import RegistryLog

#: A record of the topic may have 16 MiB including its overhead.
_MAX_BYTES: Final = 15 << 20


class Editor:
    """Reads the registry to change it."""

    def __init__(self, log: RegistryLog) -> None:
        """Read the log to its end.

        Raises:
            InfrastructureError: the log cannot be read, or its beginning is missing.
            UserError: REGISTRY_CONFLICT, a later release has written to it.
        """
        self._log = log
        self.chain = Chain()
        self._read_on()
        if self.chain.is_outgrown:
            raise UserError(
                REGISTRY_CONFLICT,
                "a later release of Onramp has written to the registry: use that release's `onramp`",
            )

    def write(self, change: Difference, actor: str, reason: str, *, of_file: bool = False) -> int:
        """Write a change and return its offset; the file owns entries that are put `of_file`.

        Raises:
            UserError: REGISTRY_CONFLICT, another change was first; this one has no effect.
            InfrastructureError: the log is unreachable, and whether the change counts is unknown.
        """
        value = self._record(change, actor, reason, of_file=of_file)
        failure: InfrastructureError | None = None
        try:
            self._log.append(value)
        except InfrastructureError as e:
            failure = e  # only its acknowledgement may be lost
        won = self._read_on(value)
        if won is not None:
            return won
        if failure is not None:
            raise failure
        raise UserError(REGISTRY_CONFLICT, "another change was first; this change has no effect")

    def _record(self, change: Difference, actor: str, reason: str, *, of_file: bool) -> bytes:
        document: Mapping[str, Any] = {
            "format": FORMAT,
            "after": self.chain.last,
            "actor": actor,
            "reason": reason,
            "time": datetime.now(UTC).isoformat(),
            **({"of_file": True} if of_file else {}),
            "put": change.put,
            "delete": change.delete,
        }
        value = orjson.dumps(document)
        verdict = self.chain.evaluate(value)
        if verdict.ruling is not Ruling.COUNTED:
            raise ValueError(f"the change of the registry is invalid: {verdict.reason}")
        if len(value) > _MAX_BYTES:
            raise ValueError(
                f"the change has {len(value):,} bytes: make it in several, of {_MAX_BYTES:,} at most"
            )
        return value

    def _read_on(self, ours: bytes | None = None) -> int | None:
        """Read new records; return the offset of this editor's record if it counted."""
        span, won = self._log.span(), None
        if span.first > 0:
            raise InfrastructureError(REGISTRY_UNREAD, "the beginning of the registry's log was deleted")
        for record in self._log.read(self.chain.end, span.end):
            counted = self.chain.take(record.offset, record.value).ruling is Ruling.COUNTED
            if counted and ours is not None and record.value == ours:
                won = record.offset
        return won
