"""Tables fit a terminal; in a pipe each row is one plain line below the columns' names."""

import sys

import pytest
from rich.text import Text

from services.cli.show.tables import print_table

ROWS = [(7, "order_placed", "y" * 300), (1200, "", "[red]\x1b[31m\n")]


def test_in_a_pipe_each_row_is_one_line_with_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ID", "NAME", "DETAIL"), ROWS, {"ID"})
    assert capsys.readouterr().out.splitlines() == [
        "  ID  NAME          DETAIL",
        f"   7  order_placed  {'y' * 300}",
        r"1200  -             [red]\x1b[31m\n",
    ]


def test_on_a_terminal_the_last_column_is_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_table(("ID", "NAME", "DETAIL"), ROWS, {"ID"})
    page = capsys.readouterr().out
    lines = [Text.from_ansi(line).plain for line in page.splitlines()]
    assert max(map(len, lines)) <= 60
    assert "".join(lines).count("y") == 300
    assert "\x1b[31m" not in page


def test_nothing_is_printed_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ID", "NAME"), [])
    assert capsys.readouterr().out == ""
