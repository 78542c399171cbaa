"""Prints large files and folders of the product, as warnings of `make lint`; test_modules.py has limits."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.unit.conventions.tree import product_files, text_of

WARNED_LINES: Final = 300
WARNED_FILES: Final = 15


def warnings(lengths: Mapping[Path, int]) -> Iterator[str]:
    """Yield a line for each file and each folder above the size, given the lines of each file."""
    for file, lines in lengths.items():
        if lines > WARNED_LINES:
            yield f"warning: {file} has {lines} lines"
    for folder, files in sorted(_modules_by_folder(lengths).items()):
        if files > WARNED_FILES:
            yield f"warning: {folder} has {files} files"


def _modules_by_folder(files: Iterable[Path]) -> Counter[Path]:
    return Counter(file.parent for file in files if file.name != "__init__.py")


if __name__ == "__main__":
    for line in warnings({file: len(text_of(file).splitlines()) for file in product_files()}):
        print(line)  # noqa: T201 - its output
