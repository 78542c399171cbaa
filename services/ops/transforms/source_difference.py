"""The differences between versions of a function, as lines of a unified diff."""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice, pairwise
from typing import Any, Final

from services.ops.transforms.deploys import Version

#: Maximum lines of one difference, of which a page has many.
MAX_LINES: Final = 400


def with_differences(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Return the versions, the newest first, each with its difference to the version before.

    `versions`: the oldest first.  The difference of the first one is its whole source.
    """
    sources = ["", *(each.source for each in versions)]
    described = [
        {**version.as_dict(), "difference": list(islice(_lines(before, after), MAX_LINES))}
        for version, (before, after) in zip(versions, pairwise(sources), strict=True)
    ]
    return described[::-1]


def _lines(before: str, after: str) -> Iterator[str]:
    """Yield the lines of the difference without the two lines of file names."""
    yield from islice(unified_diff(before.splitlines(), after.splitlines(), lineterm=""), 2, None)
