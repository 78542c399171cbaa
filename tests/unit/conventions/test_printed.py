"""The reader of printed commands detects differences; tests/e2e/test_demo.py runs it on a real stack."""

import pytest

from tests.fixtures.printed import PAGES, blocks, pattern

PRINTED = """\
 GROUP     EVENTS  STATE
     5          2  open   2026-11-27T23:05:09   …  The event
{"accepted":true,"receipt":{"topic":"events.x","partition":1,"offset":0},"request_id":"2edf0bc6ba4a91d6"}
"""
REAL = """\
 GROUP     EVENTS  STATE
    17          2  open   2027-01-01T00:00:00   0/2  The event
{"accepted":true,"receipt":{"topic":"events.x","partition":0,"offset":9},"request_id":"0000000000000000"}
"""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_commands_and_what_they_print(page: str) -> None:
    found = list(blocks(page, PAGES[page]))
    assert any(block.printed for block in found)
    assert all(block.code for block in found)


def test_numbers_times_and_receipts_may_differ() -> None:
    assert pattern(PRINTED).search(f"more\n{REAL}more\n")


@pytest.mark.parametrize(
    ("said", "real"), [("2  open", "3  open"), ("open", "resolved"), ('"accepted":true', '"accepted":null')]
)
def test_another_output_is_noticed(said: str, real: str) -> None:
    assert not pattern(PRINTED).search(REAL.replace(said, real))


def test_a_section_that_is_not_there_is_noticed() -> None:
    with pytest.raises(AssertionError, match="no section"):
        list(blocks("README.md", ("No such section",)))
