"""The registry as a log of change sets, read to its end and followed.

It is unread until its end was reached once: a gateway with half of the log would accept revoked keys. From
then on only a change set that counts can empty it. A truncated or recreated log looks as if
there were no keys, which may mean open access.
"""

import logging
from typing import Final

from shared.errors import REGISTRY_UNREAD, InfrastructureError
from shared.registry.change_log import NOTHING, Chain, Ruling, digest_of
from shared.registry.entries import EMPTY, Snapshot
from shared.registry.log import RegistryLog, Span
from shared.registry.memory import reasons
from shared.registry.port import Check, no_check

logger = logging.getLogger(__name__)

#: Maximum records that do not count reported one by one per refresh.
_MAX_REPORTED: Final = 20


class LogRegistry:
    """Follows a log. `snapshot` raises `InfrastructureError` REGISTRY_UNREAD until the first read."""

    def __init__(self, log: RegistryLog, check: Check = no_check) -> None:
        """`check`: this service's additional demands; only this service refuses a snapshot that fails."""
        self._log = log
        self._check = check
        self._chain: Chain | None = None
        self._snapshot: Snapshot | None = None
        #: Whether the chain begins differently from the previous one, so that it may be an accident.
        self._is_recreated = False
        #: Whether records were read that were not applied yet.
        self._is_pending = False
        self._trouble = "the registry was not read yet"
        self._unreachable = ""

    @property
    def is_read(self) -> bool:
        """Return whether there is a snapshot."""
        return self._snapshot is not None

    @property
    def is_valid(self) -> bool:
        """Return whether the snapshot matches the log, as far as the log was readable."""
        return self._snapshot is not None and not self._trouble

    @property
    def is_blank(self) -> bool:
        """Return whether the snapshot is of a log without any change that counts."""
        return self._snapshot is EMPTY

    @property
    def chain(self) -> Chain | None:
        """Return the chain as read, whether or not this service accepts it; None before the first refresh."""
        return self._chain

    @property
    def trouble(self) -> str:
        """Return why the snapshot differs from the log; empty if it does not."""
        return self._trouble or self._unreachable

    def snapshot(self) -> Snapshot:
        """Return the current snapshot, at no cost. Raises `InfrastructureError` REGISTRY_UNREAD."""
        if self._snapshot is None:
            raise InfrastructureError(REGISTRY_UNREAD, self.trouble)
        return self._snapshot

    def refresh(self) -> bool:
        """Read new records; return whether the snapshot changed. Never raises."""
        try:
            self._follow(self._log.span())
        except InfrastructureError as e:
            self._report_unreachable(e.detail)
            return False
        except Exception as e:  # noqa: BLE001 - the log is read from its start after any error
            self._report_unreachable(type(e).__name__)
            return False
        return self._is_pending and self._take_over()

    def has_removed(self, section: str, name: str) -> bool:
        """Return whether a change set removed the entry, and no later one added it."""
        return self._chain is not None and (section, name) in self._chain.removed

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _follow(self, span: Span) -> None:
        """Read new records of the log."""
        chain = self._chain
        if span.first > 0:
            self._reject(
                "the beginning of onramp.registry was deleted: recreate the topic and apply the file again"
            )
            return
        if chain is not None and self._continues(chain, span):
            self._read(chain, span.end)
        else:
            new_chain = Chain()
            self._read(new_chain, span.end)
            self._is_recreated |= chain is not None
            self._chain, self._is_pending = new_chain, True
        if self._unreachable:
            logger.info("registry is readable again")
            self._unreachable = ""

    def _continues(self, chain: Chain, span: Span) -> bool:
        """Return whether `chain` was read from this log: the last record that counted is unchanged."""
        if span.end < chain.end:
            return False
        if span.end == chain.end or chain.last == NOTHING:
            return chain.end in {span.end, 0}
        again = self._log.read(chain.last, chain.last + 1)
        return [digest_of(each.value) for each in again] == [chain.last_digest]

    def _read(self, chain: Chain, end: int) -> None:
        reported = 0
        for record in self._log.read(chain.end, end):
            self._is_pending = True
            verdict = chain.take(record.offset, record.value)
            if verdict.ruling is not Ruling.COUNTED and (reported := reported + 1) <= _MAX_REPORTED:
                logger.warning(
                    "registry record ignored",
                    extra={"offset": record.offset, "ruling": verdict.ruling, "reason": verdict.reason},
                )
        chain.end = max(chain.end, end)

    def _take_over(self) -> bool:
        """Apply the chain's registry if this service accepts it; return whether it is new."""
        chain, before, self._is_pending = self._chain, self._snapshot, False
        if chain is None:
            return False
        try:
            snapshot = self._accepted_snapshot(chain, before)
        except ValueError as e:
            self._reject("; ".join(reasons(e)))
            return False
        self._snapshot, self._is_recreated, self._trouble = snapshot, False, ""
        if before is not None and snapshot.digest == before.digest:
            return False
        logger.info("registry loaded", extra={"digest": snapshot.digest, "offset": chain.last})
        return True

    def _accepted_snapshot(self, chain: Chain, before: Snapshot | None) -> Snapshot:
        if chain.is_outgrown:
            raise ValueError("a later release of Onramp has written to the registry: upgrade this service")
        snapshot = EMPTY if chain.last == NOTHING else chain.snapshot()
        if self._is_recreated and before is not None:
            _refuse_emptied(chain, snapshot, before)
        self._check(snapshot)
        return snapshot

    def _reject(self, reason: str) -> None:
        if reason != self._trouble:
            logger.error("registry is invalid; keeping the previous one", extra={"reason": reason})
        self._trouble = reason

    def _report_unreachable(self, reason: str) -> None:
        if reason != self._unreachable:
            logger.warning("registry is unreadable; keeping the previous one", extra={"reason": reason})
        self._unreachable = reason


def _refuse_emptied(chain: Chain, snapshot: Snapshot, before: Snapshot) -> None:
    """Raise `ValueError` for a recreated log that does not yet have the entries of a registry.

    A new key is often its first change.  Without their types, events would land in default tables.
    """
    emptied = [section for section in Snapshot.model_fields if _has(before, section, snapshot)]
    if emptied or (chain.last == NOTHING and before.digest != EMPTY.digest):
        raise ValueError(
            f"onramp.registry was recreated and lacks its previous {', '.join(emptied) or 'entries'}: apply "
            "the file again, or restart this service if the file has none any more"
        )


def _has(before: Snapshot, section: str, snapshot: Snapshot) -> bool:
    """Return whether only `before` has entries of the section."""
    return bool(getattr(before, section)) and not getattr(snapshot, section)
