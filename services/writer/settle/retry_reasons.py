"""The reasons to restart a transaction: a blocked table, an unexpected exception, a conflict."""

from services.writer.model.targets import Target
from shared.errors import Fault, InfrastructureError


class BlockedError(Exception):
    """A table takes no rows now: the transaction starts again, and they wait.

    `suspicious`: one row may be at fault, so the table might take the others.
    """

    def __init__(self, target: Target, sqlstate: str | None, *, suspicious: bool = False) -> None:
        super().__init__(f"{target}: {sqlstate}")
        self.target = target
        self.sqlstate = sqlstate
        self.suspicious = suspicious


class UnforeseenError(Exception):
    """The rows of `target` raised an unexpected exception: the next attempt tries them one by one."""

    def __init__(self, target: Target) -> None:
        super().__init__(str(target))
        self.target = target


class SerializationConflictError(InfrastructureError):
    """A deadlock or a serialisation failure: the transaction starts again.

    `blocked`: the error to treat it as when it repeats.
    """

    def __init__(self, fault: Fault, detail: str, blocked: BlockedError) -> None:
        super().__init__(fault, detail)
        self.blocked = blocked
