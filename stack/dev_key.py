"""The development key: made once per data folder, so that the embedded gateway has a door too.

It opens only the gateway that `onramp up` starts; the production profile refuses such a key.
"""

import secrets
from pathlib import Path

FILE_NAME = "dev.key"


def dev_key(data_dir: Path) -> str:
    """The key of this data folder, made on first sight and readable by its owner only."""
    file = data_dir / FILE_NAME
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(f"onramp_dev_{secrets.token_urlsafe(32)}\n", "utf-8")
    return file.read_text("utf-8").strip()
