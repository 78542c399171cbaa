"""Pages use current terms: retired words of the table below fail."""

import re
from pathlib import Path

import pytest

from docs import generate
from tests.unit.conventions.test_docs import prose
from tests.unit.conventions.tree import line_at, pages, report, text_of

#: What was said, and what is said now.
TODAY = {
    r"anew": "again",
    r"made anew": "recreated",
    r"for ever": "forever",
    r"at hand": "available",
    r"mend(?:s|ed|ing)?": "fix",
    r"the door": "the gateway",
    r"by a person alone": "manual",
    r"a person's word": "operator decision",
    r"st(?:ands|ood) at": "is at, position",
    r"(?:another|each|the newest) life": "generation",
    r"flights? leaves?": "batch",
    r"aloud": "and says so",
}
LEFT_BEHIND = re.compile(rf"\b(?:{'|'.join(TODAY)})\b".replace(" ", r"\s+"), re.IGNORECASE)
#: Made from the code's words or from results.
MADE = {*generate.PAGES, "docs/capacity.md"}
WRITTEN = [page for page in pages() if str(page) not in MADE and page.parent != Path("loadtest/results")]


def test_pages_have_todays_words() -> None:
    offenders = []
    for page in WRITTEN:
        text = prose(text_of(page))
        offenders += [
            f"{page}:{line_at(text, found.start())}: {found.group()!r}: say it as TODAY does"
            for found in LEFT_BEHIND.finditer(text)
        ]
    assert offenders == [], report(offenders)


@pytest.mark.parametrize(
    "text", ["a topic was made anew", "it waits for ever", "refused at the door", "Mended"]
)
def test_a_word_that_was_left_behind_is_noticed(text: str) -> None:
    assert LEFT_BEHIND.search(text)
