"""The registry's file as `onramp up` follows it: applied when it starts and whenever the file changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from services.cli.connection_options import Where
from services.ops.registry.change import Result, State, Wish, apply_file
from shared.errors import InfrastructureError, UserError
from shared.registry.editor import Editor
from shared.registry.file import Stamp, ending, stamp_of
from shared.registry.log import RegistryLog

#: Attempts after conflicts with other changes, each compared with the new state.
_TRIES: Final = 5
_WISH: Final = Wish(reason="the file was saved")
_HINTS: Final = {
    State.UNDECIDED: "`onramp apply {} --accept` brings it into force",
    State.CONFLICT: "retrying",
}
_CUT: Final = (
    "the file does not end as before, with a whole line or with `...`: it was truncated, or is being written"
)
_FIX: Final = "correct it and save it again"


class FollowedFile:
    """Applies the file and reports in lines; on any error the old state stays in force."""

    def __init__(
        self, log: RegistryLog, file: Path, where: Where | None, say: Callable[[list[str]], None]
    ) -> None:
        """`log` is the registry's, and closed by `close`; without `where` no table is created."""
        self._log = log
        self._file = file
        self._where = where
        self._say = say
        #: Digest of the file in force or refused; None while it is to be retried.
        self._stamp: Stamp | None = None
        self._ending = 0
        self._said: list[str] = []

    def apply_if_changed(self) -> State | None:
        """Apply the file if it has changed; return the resulting state, or None without a change."""
        stamp = stamp_of(self._file)
        if stamp is None:
            self._tell([f"{self._file} does not exist: its last version remains in force"])
            return None
        if stamp == self._stamp:
            return None
        try:
            result = self._applied()
        except (InfrastructureError, UserError) as error:
            self._tell([f"{self._file} is not in force yet: {error.detail}; retrying"])
            return None
        self._stamp = None if result.state is State.CONFLICT else stamp
        self._tell(self._lines(result))
        return result.state

    def retry_refused(self) -> None:
        """Retry a refused file: its missing objects may exist now."""
        if self._said:
            self._stamp = None

    def close(self) -> None:
        """Let go of the log."""
        self._log.close()

    def _applied(self) -> Result:
        if cut := self._cut():
            return Result(State.REFUSED, cut)
        for _ in range(_TRIES):
            result = apply_file(Editor(self._log), self._file, _WISH, self._where)
            if result.state is not State.CONFLICT:
                break
        return result

    def _cut(self) -> str:
        """Return why the file seems truncated; empty if it does not."""
        try:
            now = ending(self._file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            return ""  # loading it reports the error
        before, self._ending = self._ending, max(self._ending, now)
        return _CUT if now < before else ""

    def _lines(self, result: Result) -> list[str]:
        if result.state is State.UNCHANGED:
            return (
                [f"{self._file}: {result.reason}", *(f"  {line}" for line in result.ddl)]
                if result.ddl
                else []
            )
        if result.state is State.APPLIED:
            return [f"{self._file} is in force:", *(f"  {line}" for line in [*result.changes, *result.ddl])]
        hint = _HINTS.get(result.state, _FIX).format(self._file)
        found = [line for line in result.lines() if line not in {*result.changes, *result.unchanged}]
        return [
            f"{self._file} is NOT in force, the previous state remains: {result.reason}",
            *(f"  {line}" for line in found),
            f"  ({hint})",
        ]

    def _tell(self, lines: list[str]) -> None:
        """Print lines, unless they equal the last ones."""
        if lines and lines != self._said:
            self._say(lines)
        self._said = lines
