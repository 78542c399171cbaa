"""Links to the documentation in the texts of fixes, which name a page and a section of it.

A text is read in a terminal, where it must do without links; pages and the HTTP API show the links.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_PAGE: Final = re.compile(r"docs/([a-z-]+\.md)(?:, ([A-Z][^:;.,()]*))?")
_NOT_IN_FRAGMENT: Final = re.compile(r"[^\w\s-]")


class FixLink(NamedTuple):
    """A page of the documentation, and the fragment of its section, empty for the whole page."""

    text: str
    page: str
    fragment: str

    @property
    def target(self) -> str:
        """Return the page with its fragment, relative to the folder of the documentation."""
        return f"{self.page}#{self.fragment}" if self.fragment else self.page


def links_in(fix: str) -> Iterator[FixLink]:
    """Yield the links of a fix, in their order."""
    for match in _PAGE.finditer(fix):
        yield _link(match)


def pages_in(fix: str) -> list[str]:
    """Return the paths of the linked pages in the repository, each with its fragment."""
    return [f"docs/{link.target}" for link in links_in(fix)]


def with_links(fix: str, render: Callable[[FixLink], str]) -> str:
    """Return a fix with each link as `render` returns it."""
    return _PAGE.sub(lambda match: render(_link(match)), fix)


def fragment_of(heading: str) -> str:
    """Return the fragment of a heading, as the usual renderers of Markdown make it."""
    return _NOT_IN_FRAGMENT.sub("", heading.strip().lower()).replace(" ", "-")


def _link(match: re.Match[str]) -> FixLink:
    page, heading = match.group(1), (match.group(2) or "").strip()
    return FixLink(match.group(0).strip(), page, fragment_of(heading))
