"""The development keys of a data folder, so that the services of `onramp up` require keys, too.

One key is for a producer and one for an operator. They are valid only for the gateway and the admin service
that `onramp up` starts; the production profile, and an admin service beyond this machine, refuse such keys.
"""

from pathlib import Path

from shared.registry.key_secrets import new_key
from stack.private_files import secret

FILE_NAME = "dev.key"
OPERATOR_FILE_NAME = "operator.key"


def dev_key(data_dir: Path) -> str:
    """Return the producer's key of this data folder; create it when missing, readable by its owner only."""
    return secret(data_dir / FILE_NAME, lambda: new_key("dev")[0])


def operator_key(data_dir: Path) -> str:
    """Return the operator's key of this data folder; create it when missing, readable by its owner only."""
    return secret(data_dir / OPERATOR_FILE_NAME, lambda: new_key("operator")[0])


def known_dev_key(data_dir: Path) -> str | None:
    """Return the producer's key of this data folder, or None if this account can read none."""
    return _known(data_dir / FILE_NAME)


def known_operator_key(data_dir: Path) -> str | None:
    """Return the operator's key of this data folder, or None if this account can read none."""
    return _known(data_dir / OPERATOR_FILE_NAME)


def _known(file: Path) -> str | None:
    try:
        return file.read_text("utf-8").strip() or None
    except OSError:
        return None
