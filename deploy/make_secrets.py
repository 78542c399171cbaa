"""The secrets of docker-compose.yml: made once, each in a volume that only those who need it mount.

Nothing is overwritten: who has volumes from before keeps them, and gives the database's old
password once, as ONRAMP_POSTGRES_PASSWORD.
"""

import os
import secrets
import sys
from pathlib import Path

from shared.registry.key_secrets import new_key

#: The user of our images (deploy/*.Dockerfile).
OURS = 10001
#: By the file with the key: the section that it opens something by.
_SECTIONS = {
    "compose.key": 'keys:\n  compose:\n    hashes:\n      - sha256: "{sha256}"\n    destinations: ["*"]\n',
    "operator.key": 'operators:\n  operator:\n    role: admin\n    hashes:\n      - sha256: "{sha256}"\n',
}
_KEYS = "keys:\n"
#: The tracer's key, among the keys of the registry: it opens the type of tracers alone.
_TRACER = '  tracer:\n    hashes:\n      - sha256: "{sha256}"\n    events: [onramp_probe]\n'


def main(volumes: Path) -> None:
    """Make what is missing below `volumes`: registry/, sender/, database/; tracer/ is the tracer's."""
    registry = volumes / "registry" / "onramp.yaml"
    for name, section in _SECTIONS.items():
        key_file = volumes / "sender" / name
        if not key_file.exists():
            key, sha256 = new_key(name.removesuffix(".key"))
            before = registry.read_text("utf-8") if registry.exists() else ""
            _write(key_file, f"{key}\n", owner=OURS)
            _write(registry, before + section.format(sha256=sha256), owner=OURS)
    tracer_file = volumes / "tracer" / "tracer.key"
    if not tracer_file.exists():
        key, sha256 = new_key("tracer")
        _write(tracer_file, f"{key}\n", owner=OURS)
        keys = _KEYS + _TRACER.format(sha256=sha256)
        _write(registry, registry.read_text("utf-8").replace(_KEYS, keys, 1), owner=OURS)
    if os.geteuid() == 0:  # the tracer writes its file there
        os.chown(volumes / "tracer", OURS, OURS)
    password_file = volumes / "database" / "password"
    if not password_file.exists():
        _write(password_file, os.environ.get("POSTGRES_PASSWORD") or secrets.token_urlsafe(24), owner=0)
    password = password_file.read_text("utf-8").replace("\\", "\\\\").replace(":", "\\:")
    _write(volumes / "database" / "pgpass", f"postgres:5432:onramp:onramp:{password}\n", owner=OURS)


def _write(file: Path, text: str, owner: int) -> None:
    """Write the file whole or not at all, readable only by its owner."""
    beside = file.with_name(f".{file.name}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
    if os.geteuid() == 0:
        os.chown(beside, owner, owner)
    beside.replace(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
