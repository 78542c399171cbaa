"""Where the stack of a data folder listens: other ports than the usual ones, when those were taken."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from stack.ports import LOOPBACK

_FILE: Final = "addresses.json"
#: The ports that are taken when they are free.
KAFKA_PORT: Final = 9092
POSTGRES_PORT: Final = 55432
GATEWAY_PORT: Final = 8080
WRITER_PORT: Final = 8081
ADMIN_PORT: Final = 8082


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What `onramp up` listens on; the defaults are its usual ports."""

    kafka: str = f"{LOOPBACK}:{KAFKA_PORT}"
    gateway: str = f"http://{LOOPBACK}:{GATEWAY_PORT}"
    postgres_port: int = POSTGRES_PORT
    writer: str = f"http://{LOOPBACK}:{WRITER_PORT}"
    admin: str = f"http://{LOOPBACK}:{ADMIN_PORT}"


def note(folder: Path, addresses: Addresses) -> None:
    """Keep them in the data folder for whoever looks while the stack runs."""
    (folder / _FILE).write_text(json.dumps(asdict(addresses)), "utf-8")


def known(folder: Path) -> Addresses:
    """Return where the stack of `folder` runs, or was when it was killed; the usual ones when none does."""
    return noted(folder) or Addresses()


def noted(folder: Path) -> Addresses | None:
    """Return the same; None when no stack runs."""
    try:
        return Addresses(**json.loads((folder / _FILE).read_text("utf-8")))
    except FileNotFoundError:
        return None


def forget(folder: Path) -> None:
    """The stack has stopped."""
    (folder / _FILE).unlink(missing_ok=True)
