"""The pages that are made of measured results: loadtest/results/README.md and docs/capacity.md."""

from pathlib import Path


def write(out: Path) -> None:
    """Placeholder."""
