"""The code of writer, transforms and lake as one archive for ``spark-submit`` (``make bundle``).

The archive excludes dependencies from the package index: the cluster's Python has them, see
docs/production.md.
"""

import sys
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
BUNDLE: Final = ROOT / ".onramp" / "onramp-writer.zip"
_CODE: Final = (
    "services/__init__.py",
    "services/lake/**/*.py",
    "services/transform/**/*.py",
    "services/writer/**/*.py",
    "services/writer/**/*.sql",
    "shared/**/*.py",
)
#: The earliest time that a zip can store: equal code makes an equal archive.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def bundle(file: Path = BUNDLE) -> Path:
    """Write the archive and return its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted({path for pattern in _CODE for path in ROOT.glob(pattern)}):
            entry = zipfile.ZipInfo(path.relative_to(ROOT).as_posix(), _EPOCH)
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return file


if __name__ == "__main__":
    sys.stdout.write(f"{bundle()}\n")
