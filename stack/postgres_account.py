"""The account of the embedded Postgres, which refuses to run as root.

For other users it runs under their own account. For root (containers, CI) it runs as an account without
rights, which must reach two folders: the binaries and the data. A folder above them may be closed to others
(`/root` usually is), and opening it for good would be a surprise. Instead the server is started with the one
capability that lets it pass closed folders.
"""

import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from stack.errors import UnavailableError

_ACCOUNTS = ("postgres", "nobody")


class PopenArguments(TypedDict, total=False):
    """The arguments of `subprocess` that choose an account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """The account to run as: nothing set means the current account."""

    uid: int | None = None
    gid: int | None = None
    prefix: Sequence[str] = ()

    def popen_arguments(self) -> PopenArguments:
        """Return what `subprocess.run` needs to become this account."""
        if self.uid is None or self.gid is None or self.prefix:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def account_for(folders: Sequence[Path]) -> Account:
    """Return the account that can run Postgres with these folders.

    Raises:
        UnavailableError: the user is root, and no other account can reach them.
    """
    if os.geteuid() != 0:
        return Account()
    uid, gid = _unprivileged()
    closed = [folder for folder in folders if not _reachable(folder)]
    if not closed:
        return Account(uid, gid)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise UnavailableError(
            f"Postgres refuses to run as root, and no other account may enter {closed[0]}.",
            fix="Run as an ordinary user, or move the project to a folder that others may enter, "
            "or give your own database with --dsn.",
        )
    prefix = [
        setpriv,
        f"--reuid={uid}",
        f"--regid={gid}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        # `initdb` checks its programs with access(2), which drops all capabilities of a process whose
        # real uid is not root, unless this bit is set (access(2), capabilities(7)).
        "--securebits=+no_setuid_fixup",
    ]
    return Account(uid, gid, prefix)


def hand_over(folder: Path, account: Account) -> None:
    """Give a folder and everything in it to the account."""
    if account.uid is None or account.gid is None:
        return
    if folder.stat().st_uid == account.uid:
        return
    os.chown(folder, account.uid, account.gid)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent) / name, account.uid, account.gid, follow_symlinks=False)


def _unprivileged() -> tuple[int, int]:
    import pwd  # noqa: PLC0415 - does not exist on every platform

    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise UnavailableError(
        f"Postgres refuses to run as root, and there is no account {' or '.join(_ACCOUNTS)}.",
        fix="Run as an ordinary user, or give your own database with --dsn.",
    )


def _reachable(folder: Path) -> bool:
    """Return whether all users may pass through this folder and every folder above it."""
    resolved = folder.resolve()
    return all(each.stat().st_mode & stat.S_IXOTH for each in (resolved, *resolved.parents))
