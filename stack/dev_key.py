"""The development key: made once per data folder, so that the embedded gateway asks for one, too.

It is good only for the gateway that `onramp up` starts; the production profile refuses such a key.
"""

from pathlib import Path

from shared.registry.keys import new_key
from stack.private import secret

FILE_NAME = "dev.key"


def dev_key(data_dir: Path) -> str:
    """Return the key of this data folder, made on first sight and readable by its owner only."""
    return secret(data_dir / FILE_NAME, lambda: new_key("dev")[0])


def known_dev_key(data_dir: Path) -> str | None:
    """Return the key of this data folder if there is one that we may read; none is made."""
    try:
        return (data_dir / FILE_NAME).read_text("utf-8").strip() or None
    except OSError:
        return None
