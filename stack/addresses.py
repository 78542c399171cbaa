"""The addresses of the stack of a data folder, which may differ from the usual ports."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from stack.ports import LOOPBACK

_FILE: Final = "addresses.json"
#: The ports that are used when they are free.
KAFKA_PORT: Final = 9092
POSTGRES_PORT: Final = 55432
GATEWAY_PORT: Final = 8080
WRITER_PORT: Final = 8081
ADMIN_PORT: Final = 8082
TRACER_PORT: Final = 8085
TRANSFORM_PORT: Final = 8086
LAKE_PORT: Final = 8087
COMPACTION_PORT: Final = 8088


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses on which `onramp up` listens; the defaults are its usual ports."""

    kafka: str = f"{LOOPBACK}:{KAFKA_PORT}"
    gateway: str = f"http://{LOOPBACK}:{GATEWAY_PORT}"
    postgres_port: int = POSTGRES_PORT
    writer: str = f"http://{LOOPBACK}:{WRITER_PORT}"
    admin: str = f"http://{LOOPBACK}:{ADMIN_PORT}"
    tracer: str = f"http://{LOOPBACK}:{TRACER_PORT}"
    transform: str = f"http://{LOOPBACK}:{TRANSFORM_PORT}"
    lake: str = f"http://{LOOPBACK}:{LAKE_PORT}"


def note(folder: Path, addresses: Addresses) -> None:
    """Store the addresses in the data folder, for other commands while the stack runs."""
    (folder / _FILE).write_text(json.dumps(asdict(addresses)), "utf-8")


def known(folder: Path) -> Addresses:
    """Return the addresses of the stack of `folder`, or of one that was killed; else the usual ports."""
    return noted(folder) or Addresses()


def noted(folder: Path) -> Addresses | None:
    """Return the addresses, or None when no stack runs."""
    try:
        return Addresses(**json.loads((folder / _FILE).read_text("utf-8")))
    except FileNotFoundError:
        return None


def forget(folder: Path) -> None:
    """Remove the addresses of a stopped stack."""
    (folder / _FILE).unlink(missing_ok=True)
