"""The development keys of a data folder, so that the services of `onramp up` ask for keys, too.

One is a producer's and one an operator's. They are good only for the gateway and the admin service that
`onramp up` starts; the production profile, and an admin service beyond this machine, refuse such keys.
"""

from pathlib import Path

from shared.registry.keys import new_key
from stack.private_files import secret

FILE_NAME = "dev.key"
OPERATOR_FILE_NAME = "operator.key"


def dev_key(data_dir: Path) -> str:
    """Return the producer's key of this data folder, made when missing and readable by its owner only."""
    return secret(data_dir / FILE_NAME, lambda: new_key("dev")[0])


def operator_key(data_dir: Path) -> str:
    """Return the operator's key of this data folder, made when missing and readable by its owner only."""
    return secret(data_dir / OPERATOR_FILE_NAME, lambda: new_key("operator")[0])


def known_dev_key(data_dir: Path) -> str | None:
    """Return the producer's key of this data folder; None if there is none that this account may read."""
    return _known(data_dir / FILE_NAME)


def known_operator_key(data_dir: Path) -> str | None:
    """Return the operator's key of this data folder; None if there is none that this account may read."""
    return _known(data_dir / OPERATOR_FILE_NAME)


def _known(file: Path) -> str | None:
    try:
        return file.read_text("utf-8").strip() or None
    except OSError:
        return None
