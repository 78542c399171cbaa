"""Each page and section that a fix names exists, so that its link leads there."""

from pathlib import Path

from shared.errors import TABLE
from shared.fix_links import FixLink, fragment_of, links_in, with_links

DOCS = Path(__file__).parents[3] / "docs"


def _fragments(page: Path) -> set[str]:
    lines = page.read_text("utf-8").splitlines()
    return {fragment_of(line.lstrip("#")) for line in lines if line.startswith("#")}


def test_the_links_of_every_fix_have_a_target() -> None:
    found = [link for fault in TABLE.values() for link in links_in(fault.fix)]
    assert len([link for link in found if link.fragment]) > 5
    for link in found:
        page = DOCS / link.page
        assert page.is_file(), link
        assert not link.fragment or link.fragment in _fragments(page), link


def test_a_link_is_the_page_and_its_section() -> None:
    fix = "Stop it: see docs/operating.md, An event is too large. Or read docs/sending.md, which is long."
    assert list(links_in(fix)) == [
        FixLink("docs/operating.md, An event is too large", "operating.md", "an-event-is-too-large"),
        FixLink("docs/sending.md", "sending.md", ""),
    ]
    shown = with_links(fix, lambda link: f"<{link.target}>")
    assert shown == (
        "Stop it: see <operating.md#an-event-is-too-large>. Or read <sending.md>, which is long."
    )
